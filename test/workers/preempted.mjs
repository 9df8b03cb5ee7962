// @ts-check
// A thread that loses its processor for 30 ms just as it first reads its clock, if its data say so. Import it before the
// package.
import { performance } from 'node:perf_hooks';
import { workerData } from 'node:worker_threads';

const pauses = new Int32Array(new SharedArrayBuffer(4));
if (workerData.preempted === true) {
  const now = performance.now.bind(performance);
  performance.now = () => {
    if (Atomics.load(pauses, 0) === 0) {
      Atomics.wait(pauses, 0, 0, 30);
      Atomics.store(pauses, 0, 1);
    }
    return now();
  };
}
