// Makes more grants, timeouts, released keys and news of web locks at once than the addon hands over in one call, on
// the installation of the package whose folder is the argument. Prints how many of each had arrived one turn of the
// event loop after the first. Only the loops that take batches can deliver the others by then.
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const load = (module) => import(pathToFileURL(path.join(process.argv[2], 'unbundled', module)).href);
const { StripedLock } = await load('index.js');
const { leaseEngine, nativeWebLockEngine } = await load('engine/select.js');
const { EXCLUSIVE_MODE, SHARED_MODE } = await load('engine/contract/mode.js');

const MANY = 300;
/** Milliseconds. */
const SHORT = 5;
/** Milliseconds. An acquisition that waits this long is stalled. */
const LONG = 60_000;
const clock = new Int32Array(new SharedArrayBuffer(4));

/** How many of `count` have arrived one turn after the first. `begin` gets what each of them is to call. */
async function arrivedWithTheFirst(begin) {
  let arrived = 0;
  await new Promise((resolve) => {
    begin(() => {
      if (++arrived === 1) resolve();
    });
  });
  await turn();
  return arrived;
}

async function grants() {
  const lock = new StripedLock({ engine: 'native' });
  const guard = lock.acquireSync('key');
  const readers = Array.from({ length: MANY }, () => lock.acquire('key', { mode: 'shared', timeout: LONG }));
  const arrived = await arrivedWithTheFirst((arrive) => {
    for (const reader of readers) void reader.then(arrive);
    guard.release();
  });
  for (const reader of readers) (await reader).release();
  return arrived;
}

async function timeouts() {
  const lock = new StripedLock({ engine: 'native' });
  const guard = lock.acquireSync('key');
  const arrived = await arrivedWithTheFirst((arrive) => {
    for (let i = 0; i < MANY; i++) lock.acquire('key', { timeout: SHORT }).catch(arrive);
    // All deadlines pass before the event loop continues.
    Atomics.wait(clock, 0, 0, 2 * SHORT);
  });
  guard.release();
  return arrived;
}

async function releasedKeys() {
  const table = leaseEngine().openTable(false);
  const keys = Array.from({ length: MANY }, (_, i) => `key ${i}`);
  return arrivedWithTheFirst((arrive) => {
    for (const key of keys) {
      table.tryAcquire(key, 'holder', LONG, NaN, '');
      table.watch(key, arrive);
    }
    for (const key of keys) table.end(key, 'holder', NaN);
  });
}

async function namedNews() {
  const locks = nativeWebLockEngine().open();
  const held = { ticket: -1 };
  locks.request('name', EXCLUSIVE_MODE, 'wait', held);
  return arrivedWithTheFirst((granted) => {
    for (let i = 0; i < MANY; i++) locks.request('name', SHARED_MODE, 'wait', { ticket: -1, granted });
    locks.release(held);
  });
}

console.log(
  JSON.stringify({
    grants: await grants(),
    timeouts: await timeouts(),
    releasedKeys: await releasedKeys(),
    namedNews: await namedNews(),
  }),
);
