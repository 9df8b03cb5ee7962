// Allocates tables of random sizes until there is room for none, in step with other threads. Posts [start, end] of each.
import { parentPort, workerData } from 'node:worker_threads';
import { Arena } from '../../dist/engine/native/arena.js';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { memory, gate, threads, seed } = workerData;
const arena = Arena.over(memory);
const random = randomFrom(seed);
const spans = [];
meet(gate, threads);
for (let most = 64; most >= 1; most >>= 1) {
  for (;;) {
    const stripes = 1 + below(random, most);
    const offset = arena.allocate(stripes);
    if (offset === undefined) break;
    spans.push([offset, offset + 256 + 64 * stripes]);
  }
}
parentPort.postMessage(spans);
