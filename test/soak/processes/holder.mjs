// One of the processes of program.mjs: its main thread acquires asynchronously, a worker blocks. Each change of a value goes in
// steps, between which the process may be killed or stopped:
//   1. the block says that a change is under way    2. the thread's own count    3. the counter    4. no change is under way
// So who finds a change under way knows that its holder died, and must have been told by `abandoned`. The counter is the
// sum of all threads' counts, unless an update was lost.

import { openSync, readSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

import { LockTimeoutError } from 'stripelock';
import { ProcessLock } from 'stripelock/process';
import { randomFrom } from '../../workers/random.mjs';
import { now } from '../faults/clock.mjs';
import { History } from '../faults/history.mjs';
import {
  BLOCK_BYTES,
  count,
  countOwn,
  KEYS,
  repair,
  setDirty,
  setToken,
  sumsOf,
  tokenOf,
} from './values.mjs';

const [lockPath, valuesPath, index, seed, damage, historyPath] = isMainThread
  ? process.argv.slice(2)
  : workerData;
const thread = 2 * Number(index) + (isMainThread ? 0 : 1);
const random = randomFrom(Number(seed) + (isMainThread ? 0 : 1));
const file = openSync(valuesPath, 'r+');
const lock = await open();
const history =
  historyPath === ''
    ? undefined
    : new History(`${historyPath}-${process.pid}-${thread}`, `process ${process.pid}, thread ${thread}`);

/** While the header is damaged, newcomers are refused until a process that has the file open has written it again. */
async function open() {
  for (;;) {
    try {
      return new ProcessLock({ path: lockPath, name: 'soak' });
    } catch (error) {
      const refused = /^ERR_LOCK_FILE_(DAMAGED|FOREIGN|VERSION|COUNT)$/.test(
        String(/** @type {any} */ (error).code),
      );
      if (damage !== 'header' || !refused) throw error;
      await sleep(5);
    }
  }
}

const said = { thread, grants: 0, abandoned: 0, violations: /** @type {string[]} */ ([]) };
const violated = (/** @type {string} */ what) =>
  said.violations.push(`process ${process.pid}, thread ${thread}: ${what}`);
const block = Buffer.alloc(BLOCK_BYTES);
const read = (/** @type {number} */ key) => readSync(file, block, 0, BLOCK_BYTES, key * BLOCK_BYTES);
const write = (/** @type {number} */ key) => writeSync(file, block, 0, BLOCK_BYTES, key * BLOCK_BYTES);

/**
 * Whether a token comes from garbage in the page that looks like a token of the coming year. Later garbage may remove it, and
 * tokens then follow the clock again.
 *
 * @param {bigint} token
 */
const isFromGarbage = (token) => damage === 'page' && token > BigInt(Date.now() + 60_000) * 1_000_000n;

/**
 * @param {number} key
 * @param {import('stripelock/process').ProcessGuard} guard
 */
function check(key, guard) {
  read(key);
  const { dirty, counter, sum } = sumsOf(block);
  if (dirty && !guard.abandoned && damage === '') violated(`nobody said that a holder of key ${key} died`);
  if (!dirty && counter !== sum)
    violated(`key ${key} was changed ${sum} times, and its counter is ${counter}`);
  if (guard.token <= tokenOf(block)) violated(`token ${guard.token} of key ${key} after ${tokenOf(block)}`);
  return dirty;
}

/**
 * @param {number} key
 * @param {import('stripelock/process').ProcessGuard} guard
 * @returns {Generator<void>}
 */
function* change(key, guard) {
  if (check(key, guard)) repair(block);
  if (!isFromGarbage(guard.token)) setToken(block, guard.token);
  setDirty(block, true);
  write(key);
  yield;
  countOwn(block, thread);
  write(key);
  yield;
  count(block);
  write(key);
  yield;
  setDirty(block, false);
  write(key);
}

function choose() {
  const first = Math.floor(random() * KEYS);
  const keys = random() < 0.2 ? [first, (first + 1) % KEYS] : [first];
  const shared = random() < 0.2;
  /** @type {import('stripelock').AcquireOptions} */
  const options = { mode: shared ? 'shared' : 'exclusive', timeout: random() < 0.2 ? random() * 20 : 15_000 };
  return { keys, shared, options };
}

/**
 * @param {number[]} keys
 * @param {boolean} shared
 * @param {import('stripelock/process').ProcessGuard} guard
 * @param {number} call When it was asked for.
 */
function* use(keys, shared, guard, call) {
  said.grants++;
  if (guard.abandoned) said.abandoned++;
  const { token } = guard;
  const told = shared || history === undefined ? [] : keys;
  for (const key of told) history?.add({ op: 'acquire', key: String(key), token, call, return: now() });
  for (const key of keys) {
    if (shared) check(key, guard);
    else yield* change(key, guard);
  }
  for (const key of told) history?.add({ op: 'held', key: String(key), token, at: now() });
}

/**
 * @param {unknown} error
 * @param {import('stripelock').AcquireOptions} options
 */
function onError(error, { timeout = 0 }) {
  if (!(error instanceof LockTimeoutError) || timeout > 1000) violated(String(error));
}

let ending = false;
async function loopAsync() {
  while (!ending) {
    const { keys, shared, options } = choose();
    const call = now();
    try {
      const guard = await lock.acquire(keys, options);
      for (const _ of use(keys, shared, guard, call)) if (random() < 0.01) await sleep(random() * 4);
      guard.release();
    } catch (error) {
      onError(error, options);
    }
    if (random() < 0.02) await sleep(random() * 5);
    else if (random() < 0.1) await new Promise((resolve) => setImmediate(resolve));
  }
}

function stepSync() {
  const end = performance.now() + 50;
  while (performance.now() < end) {
    const { keys, shared, options } = choose();
    const call = now();
    try {
      const guard = lock.acquireSync(keys, options);
      for (const _ of use(keys, shared, guard, call));
      guard.release();
    } catch (error) {
      onError(error, options);
    }
  }
}

function takeSaid() {
  const all = { ...said };
  Object.assign(said, { grants: 0, abandoned: 0, violations: [] });
  return all;
}

if (isMainThread) {
  const tell = (/** @type {object} */ what) => process.connected && process.send?.(what);
  const startWorker = () => {
    const args = process.argv.slice(2);
    args[3] = String(Math.floor(random() * 2 ** 31));
    const started = new Worker(new URL(import.meta.url), { workerData: args });
    started.on('message', tell);
    started.on('error', (error) =>
      tell({ thread: thread + 1, grants: 0, abandoned: 0, violations: [String(error.stack)] }),
    );
    return started;
  };
  let worker = startWorker();
  const telling = setInterval(() => {
    tell(takeSaid());
    // Wherever it is just now, also in the middle of a change.
    if (!ending && random() < 0.03) {
      void worker.terminate();
      worker = startWorker();
    }
  }, 100);
  process.on('message', () => {
    ending = true;
    worker.postMessage('end');
  });
  process.on('disconnect', () => {
    // The one that started this is gone.
    if (!ending) process.exit(1);
  });
  await loopAsync();
  clearInterval(telling);
  tell(takeSaid());
  await lock.close();
  worker.once('exit', () => process.disconnect());
} else {
  parentPort?.on('message', () => (ending = true));
  const step = () => {
    stepSync();
    parentPort?.postMessage(takeSaid());
    if (ending) parentPort?.close();
    else setTimeout(step, 1);
  };
  step();
}
