import { parentPort, workerData } from 'node:worker_threads';
import { lead } from './program.mjs';

const { name, milliseconds } = workerData;
const work = () => new Promise((resolve) => setTimeout(resolve, milliseconds));
await lead(name, (line) => parentPort.postMessage(line), work);
