import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Twice, with a turn of the event loop between: finalizers run there, and let go of more. */
export async function collectGarbage() {
  await turn();
  collect();
  await turn();
  collect();
}
