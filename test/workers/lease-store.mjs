// A client of a memory lease store in its own thread. Runs the calls that it is sent, one after the other.
import { parentPort, workerData } from 'node:worker_threads';
import { MemoryLeaseStore } from 'stripelock';

const { handle, time } = workerData;
const clock = time && { now: () => time[0] };
const store = MemoryLeaseStore.from(handle, clock && { clock });

parentPort.on('message', ({ id, method, args }) => {
  store[method](...args).then(
    (result) => parentPort.postMessage({ id, result }),
    ({ name, message, code }) => parentPort.postMessage({ id, error: { name, message, code } }),
  );
});
