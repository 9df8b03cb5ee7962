// Arguments: seed, number of threads. Run with --expose-gc. Prints what came of it, and how much memory it took.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { churn } from '../support/churn.mjs';

const [seed, total] = process.argv.slice(2).map(Number);
/** Until here memory is not in its steady state. */
const WARM = Math.floor(total / 3);
const memory = async () => {
  globalThis.gc();
  // What is closed when its JavaScript side has been collected goes now.
  await nextTurn();
  globalThis.gc();
  return process.memoryUsage().rss / 2 ** 20;
};

let warm;
const result = await churn({
  seed,
  goesOn: (started) => started < total,
  onThread: (started) => {
    if (started === WARM) warm = memory();
  },
});
console.log(JSON.stringify({ ...result, warm: await warm, end: await memory() }));
