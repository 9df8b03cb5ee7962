import { Worker } from 'node:worker_threads';

/** Options of node that a worker cannot have, though it would inherit them. */
const REFUSED = /^--(input-type|eval|print)/;

/**
 * Starts the thread that renews leases for this thread. The only place that knows where its code is. Node ends it with
 * this thread, however this one ends; and it does not keep the process alive.
 */
export function startWorker(): Worker {
  const inherits = !process.execArgv.some((argument) => REFUSED.test(argument));
  const worker = new Worker(new URL('./worker.js', import.meta.url), {
    name: 'stripelock-renewal',
    ...(inherits ? {} : { execArgv: [] }),
  });
  worker.unref();
  return worker;
}
