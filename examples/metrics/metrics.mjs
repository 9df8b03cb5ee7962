/** Serves the metrics of a busy lock to Prometheus: node examples/metrics/metrics.mjs [port] */
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Registry } from 'prom-client';
import { StripedLock } from 'stripelock';
import { exportEvents, exportStats } from './lock-metrics.mjs';

const WORKERS = 3;

const register = new Registry();
const lock = new StripedLock({ name: 'accounts' });
exportStats(register, [lock]);
const observe = exportEvents(register);

function startWorker() {
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { workerData: { handle: lock.handle } });
  worker.on('message', ({ channel, message }) => observe(channel, message));
  worker.on('exit', startWorker);
}

const server = createServer(async (request, response) => {
  if (request.url !== '/metrics') return response.writeHead(404).end();
  response.writeHead(200, { 'Content-Type': register.contentType }).end(await register.metrics());
});
// Port 0: any free port.
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/metrics`);
});
for (let i = 0; i < WORKERS; i++) startWorker();

for (;;) {
  // Longer than the timeout of the workers.
  await lock.withLock('acct:1', { mode: 'shared' }, () => delay(80));
  await delay(20);
}
