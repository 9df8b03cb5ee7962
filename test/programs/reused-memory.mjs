// Threads make locks and drop them, send handles and open them late, and end. No lock may ever have the memory of another
// one that is in use or can be opened: each is held completely, and checked before it is dropped. Needs --expose-gc.
// Arguments: seed, rounds. Prints how many locks were made and how many handles were opened, and whether the last locks of
// the main thread are in the arena.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
import { below, randomFrom } from '../workers/random.mjs';

/** Locks that a thread has at the same time. */
const LIVE = 12;
/** Most stripes of a lock. Some thousand locks are several times as large as the arena. */
const STRIPES = 1500;
const WORKERS = 3;
/** One of this many handles is read and sent: the arena has room for all of these, as they stay. */
const SENT = 50;
/** Handles that lie in messages while locks come and go. */
const LYING = 20;
/** Rounds between two garbage collections. */
const COLLECT = 40;

const { seed, rounds } = workerData ?? { seed: Number(process.argv[2]), rounds: Number(process.argv[3]) };
const random = randomFrom(seed);
const live = [];
/** Handles of locks that may have no user, and the last token of each. */
let inFlight = [];
const counts = { made: 0, opened: 0 };

/** Holds as many stripes of a lock as integer keys reach. */
function holdAll(lock) {
  const guard = lock.tryAcquire(Array.from({ length: 64 }, (_, i) => i));
  assert.ok(guard, 'a lock that nobody else has is free');
  assert.equal(guard.abandoned, false);
  return { lock, guard, token: guard.token, held: guard.stripes.length };
}

function make() {
  const lock = new StripedLock({ engine: 'native', stripes: 1 + below(random, STRIPES) });
  const { held, contended, waiting } = lock.stats();
  assert.deepEqual({ held, contended, waiting }, { held: 0, contended: 0, waiting: 0 });
  counts.made++;
  return holdAll(lock);
}

function check({ lock, guard, held, token }) {
  assert.ok(guard.held);
  assert.equal(lock.stats().held, held);
  assert.equal(guard.token, token);
}

/** Drops one of the locks: released, or held, or with its handle in a message. */
function drop() {
  const [one] = live.splice(below(random, live.length), 1);
  check(one);
  if (below(random, 4) === 0) return;
  one.guard.release();
  if (below(random, SENT) === 0) send({ handle: one.lock.handle, token: one.token });
}

function send(message) {
  if (parentPort) parentPort.postMessage(message);
  else inFlight.push(structuredClone(message));
}

/** Opens a handle that has lain for a while. The lock is as it was left. */
function openOne() {
  const [{ handle, token }] = inFlight.splice(below(random, inFlight.length), 1);
  const one = holdAll(StripedLock.from(handle));
  assert.equal(one.token, token + 1n);
  counts.opened++;
  live.push(one);
}

async function run() {
  for (let round = 0; round < rounds; round++) {
    while (live.length < LIVE) live.push(make());
    drop();
    if (inFlight.length > LYING) openOne();
    if (round % COLLECT === 0) {
      globalThis.gc();
      await nextTurn();
    }
  }
  while (inFlight.length > 0) openOne();
  live.forEach(check);
}

function startWorker(number) {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { seed: seed + number, rounds: below(random, 2) === 0 ? Infinity : rounds },
  });
  worker.on('message', (message) => inFlight.push(message));
  return worker;
}

/** Workers that come and go: some end by themselves, others are terminated at any point. */
async function main() {
  let started = 0;
  const workers = new Set();
  const failures = [];
  const start = () => {
    const worker = startWorker(++started);
    workers.add(worker);
    worker.on('error', (error) => failures.push(error));
    worker.on('exit', () => workers.delete(worker));
  };
  const killer = setInterval(() => {
    if (workers.size < WORKERS) start();
    else void [...workers][below(random, workers.size)].terminate();
  }, 60);
  await run();
  clearInterval(killer);
  await Promise.all([...workers].map((worker) => (worker.terminate(), once(worker, 'exit'))));
  live.length = 0;
  inFlight = [];
  let inArena = false;
  for (let i = 0; i < 100 && !inArena; i++) {
    globalThis.gc();
    await nextTurn();
    inArena = new StripedLock({ engine: 'native', stripes: STRIPES }).handle.arena !== undefined;
  }
  assert.deepEqual(failures, []);
  console.log(JSON.stringify({ ...counts, inArena, started }));
}

await (isMainThread ? main() : run());
