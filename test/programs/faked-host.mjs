// Waits for locks while the functions of the host are faked, as by test runners, and after they are restored.
// Prints "ok". Argument: the engine.
import { setTimeout as startTimer } from 'node:timers';
import { Worker } from 'node:worker_threads';
import { StripedLock } from 'stripelock';

const real = {
  ...{ setTimeout, clearTimeout, setInterval, setImmediate, queueMicrotask },
  ...{ performance: performance.now, nextTick: process.nextTick, hrtime: process.hrtime },
};
const fake = () => 1;

function fakeAll() {
  Object.assign(globalThis, {
    ...{ setTimeout: fake, clearTimeout: fake, setInterval: fake, setImmediate: fake, queueMicrotask: fake },
  });
  performance.now = () => 0;
  process.nextTick = fake;
  process.hrtime = () => [0, 0];
}

function restore() {
  const { performance: now, nextTick, hrtime, ...globals } = real;
  Object.assign(globalThis, globals);
  performance.now = now;
  process.nextTick = nextTick;
  process.hrtime = hrtime;
}

function within(what, promise) {
  const late = new Promise((_, reject) => {
    // Milliseconds: far longer than anything here takes.
    startTimer(() => reject(new Error(`${what} hangs`)), 15_000).unref();
  });
  return Promise.race([promise, late]);
}

const lock = new StripedLock({ engine: process.argv[2], stripes: 1, timeout: 600_000 });

async function waitForAll(count) {
  const holder = lock.acquireSync('key');
  const all = Array.from({ length: count }, async () => (await lock.acquire('key')).release());
  holder.release();
  await within(`to serve ${count}`, Promise.all(all));
}

async function runOut() {
  const holder = lock.acquireSync('key');
  const code = await within(
    'a timeout',
    lock.acquire('key', { timeout: 20 }).catch((error) => error.code),
  );
  if (code !== 'ERR_LOCK_TIMEOUT') throw new Error(`${code} instead of a timeout`);
  holder.release();
}

/** Tasks of this thread pass the key on to each other until another thread has had it. */
async function shareWithAnother() {
  const code = `import('stripelock').then(({ StripedLock }) => {
    StripedLock.from(require('node:worker_threads').workerData).acquireSync('key').release();
  });`;
  const other = new Worker(code, { eval: true, workerData: lock.handle });
  let done = false;
  const exited = new Promise((resolve) => {
    other.once('exit', () => resolve((done = true)));
  });
  const tasks = [1, 2].map(async () => {
    while (!done) {
      const guard = await lock.acquire('key');
      await Promise.resolve();
      guard.release();
    }
  });
  await within('another thread', exited);
  await Promise.all(tasks);
}

fakeAll();
await waitForAll(1);
// Too many to be delivered in one turn of the event loop.
await waitForAll(300);
await runOut();
await shareWithAnother();
// A granted acquisition leaves a timer behind.
await waitForAll(1);
restore();
await runOut();
await waitForAll(3);
const { held, waiting } = lock.stats();
console.log(held === 0 && waiting === 0 ? 'ok' : `${held} held, ${waiting} waiting`);
