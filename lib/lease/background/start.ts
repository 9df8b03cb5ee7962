import { Worker } from 'node:worker_threads';
import { workerFile } from './worker-file.js';

/** Options of node that a worker cannot have, though it would inherit them. */
const REFUSED = /^--(input-type|eval|print)/;

/**
 * Starts the thread that renews leases for this thread. Node ends it with this thread, however this one ends; and it does
 * not keep the process alive.
 */
export function startWorker(): Worker {
  const inherits = !process.execArgv.some((argument) => REFUSED.test(argument));
  const worker = new Worker(workerFile(), {
    name: 'stripelock-renewal',
    ...(inherits ? {} : { execArgv: [] }),
  });
  worker.unref();
  return worker;
}
