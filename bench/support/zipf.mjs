/** The constant of YCSB's "zipfian" distribution. */
const THETA = 0.99;

/**
 * Draws rank k, from 0, with a probability proportional to 1 / (k + 1)^{@link THETA}.
 *
 * @param {number} count How many ranks there are.
 * @param {() => number} random Uniform in [0, 1).
 * @returns {() => number} The next rank, 0 … count - 1.
 */
export function zipfian(count, random) {
  let sum = 0;
  const upTo = Array.from({ length: count }, (_, rank) => (sum += 1 / (rank + 1) ** THETA));
  return () => {
    const drawn = random() * sum;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (drawn < Number(upTo[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}
