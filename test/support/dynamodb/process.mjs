// The stand-in in a separate process, which reports its URL.
import { StandIn } from './stand-in.mjs';

const { url } = await StandIn.start();
process.send?.(url);
// It ends with its parent.
process.on('disconnect', () => process.exit());
