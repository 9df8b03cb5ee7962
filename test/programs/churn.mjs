// Arguments: seed, number of threads. Run with --expose-gc. Prints what came of it, and how much memory it took.
import { churn } from '../support/churn.mjs';

const [seed, total] = process.argv.slice(2).map(Number);
/** Until here memory is not in its steady state. */
const WARM = Math.floor(total / 3);
const memory = () => {
  globalThis.gc();
  return process.memoryUsage().rss / 2 ** 20;
};

let warm = NaN;
const result = await churn({
  seed,
  goesOn: (started) => started < total,
  onThread: (started) => {
    if (started === WARM) warm = memory();
  },
});
console.log(JSON.stringify({ ...result, warm, end: memory() }));
