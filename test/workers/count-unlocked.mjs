// Adds one to a plain counter as the other workers do, but without a lock.
import { parentPort, workerData } from 'node:worker_threads';
import { dawdle } from './dawdle.mjs';
import { meet } from './meet.mjs';

const { cells, gate, threads, rounds } = workerData;
const counter = new Int32Array(cells);
meet(gate, threads);
for (let round = 0; round < rounds; round++) {
  const value = counter[0];
  dawdle(20);
  counter[0] = value + 1;
}
parentPort.postMessage('done');
