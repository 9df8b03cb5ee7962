// Arguments: seed, number of threads, milliseconds after which no more are started. Run with --expose-gc. Prints what came of it, and how much memory it took.
import { setTimeout as delay } from 'node:timers/promises';
import { churn } from '../support/churn.mjs';

const [seed, total, longest] = process.argv.slice(2).map(Number);
/** Threads until memory has found its level. */
const WARM = 30;
const memory = async () => {
  // What is closed when its JavaScript side has been collected goes some turns later, and then what that kept.
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
