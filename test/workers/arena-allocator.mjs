// Allocates tables of random sizes while other threads do the same. Posts [start, end] of each.
import { parentPort, workerData } from 'node:worker_threads';
import { byteLengthFor } from '../../unbundled/engine/contract/layout.js';
import { Arena } from '../../unbundled/engine/native/arena.js';
import { meet } from './meet.mjs';
import { below, randomFrom } from './random.mjs';

const { memory, gate, threads, seed, tables } = workerData;
const arena = Arena.over(memory);
const random = randomFrom(seed);
const spans = [];
meet(gate, threads);
for (let i = 0; i < tables; i++) {
  const stripes = 1 + below(random, 20);
  const offset = arena.allocate(stripes);
  spans.push([offset, offset + byteLengthFor(stripes)]);
}
parentPort.postMessage(spans);
