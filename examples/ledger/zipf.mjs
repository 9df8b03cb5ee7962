// @ts-check
/**
 * Skewed choice: rank k (from 0) is drawn with a probability proportional to 1 / (k + 1)^theta.
 *
 * The method is that of J. Gray, P. Sundaresan, S. Englert, K. Baclawski and P. J. Weinberger,
 * "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, which YCSB's
 * ZipfianGenerator uses with theta = 0.99. It needs no table, and one power a draw. The first two
 * ranks are exact; the others come from the inverse of a continuous approximation, which for 20,000
 * ranks draws the third 19 % too often, the tenth 2 %, and the top hundred together 2.5 %.
 *
 * Ranks are not scrambled: rank 0, the busiest, is account 0. YCSB scrambles so that busy keys do
 * not lie side by side in an index; here a lock maps keys to stripes by its own hash anyway.
 */

/** YCSB's "zipfian constant". */
export const ZIPFIAN_CONSTANT = 0.99;

/**
 * The generalised harmonic number: the sum of 1 / i^theta over i = 1 … count.
 *
 * @param {number} count
 * @param {number} theta
 */
export function zeta(count, theta) {
  let sum = 0;
  for (let i = 1; i <= count; i++) sum += 1 / i ** theta;
  return sum;
}

/**
 * @param {number} count How many ranks there are, at least 2.
 * @param {() => number} random Uniform in [0, 1).
 * @param {number} [theta] In (0, 1).
 * @returns {() => number} The next rank, 0 … count - 1.
 */
export function zipfian(count, random, theta = ZIPFIAN_CONSTANT) {
  const zetaOfAll = zeta(count, theta);
  const zetaOfTwo = zeta(2, theta);
  const alpha = 1 / (1 - theta);
  const eta = (1 - (2 / count) ** (1 - theta)) / (1 - zetaOfTwo / zetaOfAll);

  return () => {
    const u = random();
    const scaled = u * zetaOfAll;
    if (scaled < 1) return 0;
    // With two ranks eta is 0 / 0; rounding must not let a draw get as far as using it.
    if (scaled < zetaOfTwo || count === 2) return 1;
    // u just under 1 may round up to count.
    return Math.min(count - 1, Math.floor(count * (eta * u - eta + 1) ** alpha));
  };
}
