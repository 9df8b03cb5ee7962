// Several workers race for one nightly job. The one that gets it is paused until its lease has expired. Another takes
// over. The gate refuses the first one's late write.
//
//   node examples/nightly-job/nightly-job.mjs [--workers 3] [--ttl 300]

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Command } from 'commander';
import { FencingGate, MemoryLeaseStore, StripedLock } from 'stripelock';
import { Report } from './report.mjs';

const whole = (text) => Math.max(1, Math.trunc(Number(text)) || 1);
const options = new Command('nightly-job')
  .option('--workers <count>', 'how many race for the job', whole, 3)
  .option('--ttl <milliseconds>', 'how long a lease lasts without renewal', whole, 300)
  .parse()
  .opts();

const store = new MemoryLeaseStore();
const gate = new FencingGate();
/** For the report: admission and write are one step. */
const lock = new StripedLock();
const report = new Report();
/** Set by the first worker that runs the job. Only that one is paused. */
const paused = new Int32Array(new SharedArrayBuffer(4));

// At least two, so that another worker can take over. More than two, so that some lose the race.
const workers = Array.from({ length: Math.max(2, options.workers) }, (_, i) => {
  const workerData = {
    name: `worker ${i + 1}`,
    store: store.handle,
    gate: gate.handle,
    lock: lock.handle,
    report: report.handle,
    paused,
    ttl: options.ttl,
  };
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { workerData });
  worker.on('message', (line) => console.log(line));
  return worker;
});
await Promise.all(workers.map((worker) => once(worker, 'exit')));

const { author, token, lines } = report.read();
console.log(`the report: ${lines} lines, written by ${author} under token ${token}`);
