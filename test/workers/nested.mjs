// Starts victim.mjs in a separate worker, and ends itself on a message.
import { parentPort, Worker, workerData } from 'node:worker_threads';

const inner = new Worker(new URL('victim.mjs', import.meta.url), { workerData });
inner.on('message', (message) => parentPort.postMessage(message));
parentPort.once('message', () => process.exit(7));
