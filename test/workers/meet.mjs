/**
 * Waits until `threads` threads have arrived, so that none is done before the last begins.
 *
 * @param {SharedArrayBuffer} gate
 * @param {number} threads
 */
export function meet(gate, threads) {
  const arrived = new Int32Array(gate);
  if (Atomics.add(arrived, 0, 1) + 1 === threads) Atomics.notify(arrived, 0);
  for (let seen; (seen = Atomics.load(arrived, 0)) < threads;) Atomics.wait(arrived, 0, seen);
}
