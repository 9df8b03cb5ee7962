// The stand-in of MongoDB in a separate process: port, journal.

import { StandIn } from './stand-in.mjs';

process.on('disconnect', () => process.exit());
const [port, journal] = process.argv.slice(2);
await StandIn.start({ journal, keepsLog: false }, Number(port));
process.send?.('ready');
