// Arguments: seed, number of threads, milliseconds after which no more are started. Needs --expose-gc. Prints the
// result, and how much memory it took.
import { setTimeout as delay } from 'node:timers/promises';
import { churn } from '../support/churn.mjs';

const [seed, total, longest] = process.argv.slice(2).map(Number);
/** Threads after which memory does not grow any more. */
const WARM = 30;
const memory = async () => {
  // The addon frees its data for a collected object some turns later, and only then what that data kept alive.
  for (let i = 0; i < 10; i++) {
    globalThis.gc();
    await delay(20);
  }
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
