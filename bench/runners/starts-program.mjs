// starts-program.mjs <process|worker> <subject>: prints the nanoseconds of each step, as JSON.

import { once } from 'node:events';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { PACKAGE_FOLDER } from '../support/package-folder.mjs';

/** Workers, one after the other, beyond the first; their median counts. */
const WORKERS = 5;

const PACKAGE_JSON = path.join(PACKAGE_FOLDER, 'package.json');

/**
 * For each subject: what is imported, and what acquires and releases a lock for the first time.
 *
 * @type {Record<string, { entry: string, from: string, lock: (module: any) => unknown }>}
 */
const subjects = {
  'stripelock native': {
    entry: 'stripelock',
    from: PACKAGE_JSON,
    lock: ({ StripedLock }) => new StripedLock({ engine: 'native' }).acquireSync('key').release(),
  },
  'stripelock javascript': {
    entry: 'stripelock',
    from: PACKAGE_JSON,
    lock: ({ StripedLock }) => new StripedLock({ engine: 'javascript' }).acquireSync('key').release(),
  },
  'async-mutex': {
    entry: 'async-mutex',
    from: import.meta.filename,
    lock: async ({ Mutex }) => (await new Mutex().acquire())(),
  },
  'async-lock': {
    entry: 'async-lock',
    from: import.meta.filename,
    lock: ({ default: AsyncLock }) => new AsyncLock().acquire('key', async () => undefined),
  },
};

const nanoseconds = (/** @type {number} */ milliseconds) => Math.round(milliseconds * 1e6);

/** @param {string} name */
async function start(name) {
  const { entry, from, lock } = subjects[name];
  const url = pathToFileURL(createRequire(from).resolve(entry)).href;
  const began = performance.now();
  const module = await import(url);
  const imported = performance.now();
  await lock(module);
  const locked = performance.now();
  return { firstLockNs: nanoseconds(locked - imported), importNs: nanoseconds(imported - began) };
}

/** @param {string} name */
async function startInWorkers(name) {
  /** @type {Record<string, number>[]} */
  const told = [];
  for (let i = 0; i <= WORKERS; i++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: name });
    const exited = once(worker, 'exit');
    const [figures] = await once(worker, 'message');
    await exited;
    if (i > 0) told.push(figures);
  }
  const middle = (/** @type {string} */ metric) =>
    told.map((figures) => figures[metric]).sort((a, b) => a - b)[WORKERS >> 1];
  return { firstLockNs: middle('firstLockNs'), importNs: middle('importNs') };
}

if (isMainThread) {
  const [, , measure, name] = process.argv;
  console.log(JSON.stringify(await (measure === 'worker' ? startInWorkers(name) : start(name))));
} else {
  parentPort?.postMessage(await start(workerData));
}
