/**
 * Exports the metrics of a busy lock.
 *
 *     node examples/metrics/metrics.mjs [port]    serves them to Prometheus
 *     node examples/metrics/metrics.mjs --otel    prints them each second, as OpenTelemetry's SDK does
 */
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { metrics } from '@opentelemetry/api';
import {
  ConsoleMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { Registry } from 'prom-client';
import { StripedLock } from 'stripelock';
import { observe } from 'stripelock/metrics/opentelemetry';
import { register } from 'stripelock/metrics/prom-client';

const WORKERS = 3;

function servePrometheus(port) {
  const registry = new Registry();
  register(registry);
  const server = createServer(async (request, response) => {
    if (request.url !== '/metrics') return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': registry.contentType }).end(await registry.metrics());
  });
  // Port 0: any free port.
  server.listen(port, '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${server.address().port}/metrics`);
  });
}

function printOpenTelemetry() {
  const exporter = new ConsoleMetricExporter();
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1000 });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  observe(metrics.getMeter('stripelock'));
}

const [, , argument = '0'] = process.argv;
if (argument === '--otel') printOpenTelemetry();
else servePrometheus(Number(argument));

const lock = new StripedLock({ name: 'accounts' });
function startWorker() {
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { workerData: { handle: lock.handle } });
  worker.on('exit', startWorker);
}
for (let i = 0; i < WORKERS; i++) startWorker();

for (;;) {
  // Longer than the timeout of the workers.
  await lock.withLock('acct:1', { mode: 'shared' }, () => delay(80));
  await delay(20);
}
