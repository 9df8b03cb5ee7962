// Arguments: seed, number of threads, milliseconds after which no more are started. Run with --expose-gc. Prints what came of it, and how much memory it took.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { churn } from '../support/churn.mjs';

const [seed, total, longest] = process.argv.slice(2).map(Number);
/** Threads until memory has found its level. */
const WARM = 30;
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
  goesOn: (started) => started < total && performance.now() < longest,
  onThread: (started) => {
    if (started === WARM) warm = memory();
  },
});
console.log(JSON.stringify({ ...result, warm: await warm, end: await memory() }));
