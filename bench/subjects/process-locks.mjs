// Locks between processes: stripelock's, and those that people use today.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { systemHeaders } from '../../scripts/prebuild/build.mjs';
import { hasProcessLock, loadProcess } from '../support/package.mjs';

/** @type {(name: string) => any} */
const load = createRequire(import.meta.url);

/** Milliseconds. Long enough never to run out. */
const TIMEOUT = 120_000;

/** @type {string[]} */
const folders = [];
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

/** What processes share: a folder, which goes with the process that made it. */
export function makeFolder() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-bench-'));
  folders.push(folder);
  return folder;
}

/**
 * @param {string} name
 * @param {number} files
 * @returns {import('./index.mjs').Subject}
 */
const ours = (name, files) => ({
  name,
  packages: ['stripelock'],
  can: ['sync', 'try', 'acquire', 'run'],
  // A package that is compared with may be older than the class.
  limit: () => (hasProcessLock() ? undefined : 'has no ProcessLock'),
  create: makeFolder,
  open: async (folder) => {
    const { ProcessLock } = await loadProcess();
    const lock = new ProcessLock({ path: path.join(folder, 'lock'), timeout: TIMEOUT, files });
    return {
      acquireSync: (key) => lock.acquireSync(key),
      tryAcquire: (key) => lock.tryAcquire(key),
      acquire: (key) => lock.acquire(key),
      release: (guard) => guard.release(),
      run: (key, section) => lock.withLock(key, section),
      close: () => lock.close(),
    };
  },
});

export const processLock = ours('stripelock ProcessLock', 1);
export const spreadProcessLock = ours('stripelock ProcessLock, 16 files', 16);

/** The length of each pause is computed before the first attempt, so not a large number of retries. */
export const RETRIES = { forever: true, retries: 10, minTimeout: 1, maxTimeout: 20, factor: 1.5 };

/**
 * It retries by timers, and is given short pauses; by default it does not retry.
 *
 * @type {import('./index.mjs').Subject}
 */
export const properLockfile = {
  name: 'proper-lockfile',
  packages: ['proper-lockfile'],
  can: ['sync', 'run'],
  create: makeFolder,
  open: (folder) => {
    /** @type {typeof import('proper-lockfile')} */
    const { lock, lockSync } = load('proper-lockfile');
    // The file that is locked need not exist.
    const nameOf = (/** @type {string} */ key) => path.join(folder, key.replaceAll(/\W/g, '_'));
    return {
      acquireSync: (key) => lockSync(nameOf(key), { realpath: false }),
      release: (release) => release(),
      run: async (key, section) => {
        const release = await lock(nameOf(key), { realpath: false, retries: RETRIES });
        try {
          return await section();
        } finally {
          await release();
        }
      },
    };
  },
};

/**
 * A lock on a descriptor, which the threads and tasks of a process share, so each acquisition gets one of its own. It has
 * no keys, no timeout, and nothing beside the system calls; who waits does so in a thread of libuv's pool.
 *
 * @type {import('./index.mjs').Subject}
 */
export const fsNativeExtensions = {
  name: 'fs-native-extensions',
  packages: ['fs-native-extensions'],
  can: ['sync', 'try', 'run'],
  create: makeFolder,
  open: (folder) => {
    const { tryLock, unlock, waitForLock, waitForLockSync } = load('fs-native-extensions');
    /** @type {number[]} */
    const free = Array.from({ length: 2 }, () => openSync(path.join(folder, 'lock'), 'a+'));
    const take = () => /** @type {number} */ (free.pop());
    const release = (/** @type {number} */ file) => {
      unlock(file);
      free.push(file);
    };
    return {
      acquireSync: () => {
        const file = take();
        waitForLockSync(file);
        return file;
      },
      tryAcquire: () => {
        const file = take();
        if (tryLock(file)) return file;
        free.push(file);
        return undefined;
      },
      release,
      run: async (_key, section) => {
        const file = take();
        await waitForLock(file);
        try {
          return await section();
        } finally {
          release(file);
        }
      },
    };
  },
};

const SOURCE = path.resolve(import.meta.dirname, '../support/bare-fcntl.c');
const BINARY = path.resolve(import.meta.dirname, '../../build/bench/bare-fcntl.node');

/**
 * Undefined where there is no compiler, or no such call.
 *
 * @returns {((file: number) => boolean) | undefined}
 */
export function barePair() {
  try {
    if (!existsSync(BINARY) || statSync(BINARY).mtimeMs < statSync(SOURCE).mtimeMs) {
      mkdirSync(path.dirname(BINARY), { recursive: true });
      const system = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : [];
      const include = `-I${path.join(systemHeaders(), 'include/node')}`;
      const options = ['-O2', '-shared', '-fPIC', include, ...system, SOURCE, '-o', BINARY];
      execFileSync('cc', options, { stdio: 'ignore' });
    }
    return load(BINARY).pair;
  } catch {
    return undefined;
  }
}

/**
 * Without keys, without waiting, and without the threads of one process excluding each other.
 *
 * @type {import('./index.mjs').Subject}
 */
export const bareFcntl = {
  name: 'floor: two calls of fcntl',
  packages: [],
  can: ['sync', 'try', 'acquire'],
  limit: () => (barePair() === undefined ? 'there is no C compiler for it' : undefined),
  create: makeFolder,
  open: (folder) => {
    const pair = barePair();
    const file = openSync(path.join(folder, 'lock'), 'a+');
    const settled = Promise.resolve(0);
    return {
      acquireSync: () => pair?.(file),
      tryAcquire: () => pair?.(file),
      acquire: () => {
        pair?.(file);
        return settled;
      },
      release: () => undefined,
    };
  },
};

export const processLocks = [processLock, spreadProcessLock, properLockfile, fsNativeExtensions, bareFcntl];
