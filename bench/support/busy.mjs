// The work inside a critical section: takes a given number of nanoseconds, and uses only registers.

/**
 * A chain of dependent multiplications, so that its length in time does not depend on what surrounds it.
 *
 * @param {number} iterations
 * @param {number} seed
 */
export function busy(iterations, seed) {
  let x = seed;
  for (let i = 0; i < iterations; i++) x = (Math.imul(x, 1_664_525) + 1_013_904_223) | 0;
  return x;
}

const ITERATIONS = 200_000;
const TRIALS = 40;

/**
 * Iterations of {@link busy} to a nanosecond; the best of many trials. Calibrated once for a whole run. If each process
 * calibrated itself, one that did so on a busy machine would have other sections than its rivals.
 */
export function calibrate() {
  let best = Infinity;
  let sink = 0;
  for (let trial = 0; trial < TRIALS; trial++) {
    const started = performance.now();
    sink ^= busy(ITERATIONS, trial);
    best = Math.min(best, performance.now() - started);
  }
  // Never true. It keeps the compiler from removing the work.
  if (sink === 0.5) throw new Error('unreachable');
  return ITERATIONS / (best * 1e6);
}
