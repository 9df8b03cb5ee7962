const sink = new Int32Array(1);

/**
 * A few instructions that cannot be optimized away: time in which another thread can get in between.
 *
 * @param {number} steps
 */
export function dawdle(steps) {
  for (let i = 0; i < steps; i++) sink[0] = Math.imul(sink[0] ^ i, 0x9e37_79b1);
}
