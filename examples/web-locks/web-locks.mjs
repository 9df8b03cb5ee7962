// Three threads run the same program, one after the other. The first leader is terminated in the middle of its work.
//
//   node examples/web-locks/web-locks.mjs

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Milliseconds. The first one does not get to the end of its work. */
const WORK = { first: 3_600_000, second: 50, third: 50 };

const ends = [];
const workers = [];
for (const [name, milliseconds] of Object.entries(WORK)) {
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { workerData: { name, milliseconds } });
  ends.push(once(worker, 'exit'));
  workers.push(worker);
  // Once it leads or waits, the next one may come.
  await new Promise((resolve) => {
    worker.on('message', (line) => {
      console.log(line);
      if (/leads|waits/.test(line)) resolve();
    });
  });
}

console.log('the first is terminated');
await workers[0].terminate();
await Promise.all(ends);
