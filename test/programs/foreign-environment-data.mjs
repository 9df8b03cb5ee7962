// Starts threads whose environment data has something else under this package's name, and takes a first lock in each.
// Prints their engines.
import { once } from 'node:events';
import { isMainThread, parentPort, setEnvironmentData, Worker } from 'node:worker_threads';

const { Memory } = WebAssembly;
const noise = new Memory({ initial: 256, maximum: 256, shared: true });
// The place where an arena has the number of its used bytes.
new Int32Array(noise.buffer).fill(100_001, 0, 64);
const foreign = [
  'text',
  5n,
  null,
  { buffer: new SharedArrayBuffer(2 ** 24) },
  new SharedArrayBuffer(2 ** 24),
  new Memory({ initial: 1, maximum: 1, shared: true }),
  new Memory({ initial: 256, maximum: 512, shared: true }),
  noise,
];

if (isMainThread) {
  const engines = [];
  for (const data of foreign) {
    setEnvironmentData('stripelock: arena 1', data);
    const [engine] = await once(new Worker(new URL(import.meta.url)), 'message');
    engines.push(engine);
  }
  console.log(JSON.stringify(engines));
} else {
  const { StripedLock } = await import('stripelock');
  const lock = new StripedLock({ engine: 'native' });
  const guard = lock.acquireSync(['a', 'b']);
  const waiting = StripedLock.from(structuredClone(lock.handle)).acquire('a');
  guard.release();
  (await waiting).release();
  parentPort.postMessage(lock.engine);
}
