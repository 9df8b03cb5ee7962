// The least that a lock can cost, in the same loops as the locks.

import path from 'node:path';
import bindings from 'bindings';
import { Arena } from '../../unbundled/engine/native/arena.js';
import { StripedLock } from '../support/package.mjs';

/** Words to a cache line. */
const SPACING = 16;
const MOST_KEYS = 64;

/** @type {import('./index.mjs').Ability[]} */
const PAIRED = ['sync', 'try', 'many', 'shared'];

/** @typedef {import('./index.mjs').Subject} Subject */

/**
 * The bare compare-and-swaps of a lock without key, owner, queue or guard.
 *
 * @type {Subject}
 */
const compareExchange = {
  name: 'floor: compare-exchange pair',
  packages: [],
  can: PAIRED,
  create: () => new Int32Array(new SharedArrayBuffer(MOST_KEYS * SPACING * 4)),
  open: (words) => {
    const takeOne = () => Atomics.compareExchange(words, 0, 0, 1);
    const takeMany = (/** @type {unknown[]} */ keys) => {
      for (let i = 0; i < keys.length; i++) Atomics.compareExchange(words, i * SPACING, 0, 1);
      return keys.length;
    };
    const release = (/** @type {number} */ count) => {
      if (count === 0) Atomics.compareExchange(words, 0, 1, 0);
      else for (let i = count; i-- > 0;) Atomics.compareExchange(words, i * SPACING, 1, 0);
    };
    return pairs(takeOne, takeMany, release);
  },
};

/** @type {Arena | undefined} Created when it is first needed: other subjects are measured without it. */
let arena;

function arenaOfFloor() {
  arena ??= Arena.create();
  if (arena === undefined) throw new Error('there is no WebAssembly');
  return arena;
}

/**
 * The same by a WebAssembly function, which V8 inlines into its caller.
 *
 * @type {Subject}
 */
const wasmCompareExchange = {
  name: 'floor: compare-exchange pair in WebAssembly',
  packages: [],
  can: 'WebAssembly' in globalThis ? PAIRED : [],
  create: () => arenaOfFloor().allocate(MOST_KEYS),
  open: (address) => {
    const { compareExchange: exchange } = arenaOfFloor();
    const takeOne = () => exchange(address, 0, 1);
    const takeMany = (/** @type {unknown[]} */ keys) => {
      for (let i = 0; i < keys.length; i++) exchange(address + i * SPACING * 4, 0, 1);
      return keys.length;
    };
    const release = (/** @type {number} */ count) => {
      if (count === 0) exchange(address, 1, 0);
      else for (let i = count; i-- > 0;) exchange(address + i * SPACING * 4, 1, 0);
    };
    return pairs(takeOne, takeMany, release);
  },
};

/**
 * @param {() => number} takeOne
 * @param {(keys: unknown[]) => number} takeMany
 * @param {(held: number) => void} release
 */
function pairs(takeOne, takeMany, release) {
  return {
    acquireSync: takeOne,
    acquireSharedSync: takeOne,
    acquireManySync: takeMany,
    tryAcquire: takeOne,
    tryAcquireShared: takeOne,
    tryAcquireMany: takeMany,
    release,
  };
}

/** @type {Promise<void>} */
const settled = Promise.resolve();

/** @type {Subject} */
const bareAwait = {
  name: 'floor: await of a settled promise',
  packages: [],
  can: ['acquire', 'run', 'many', 'shared'],
  create: () => undefined,
  open: () => {
    const wait = () => settled;
    return {
      acquire: wait,
      acquireMany: wait,
      acquireShared: wait,
      release: () => undefined,
      run: (_key, section) => section(),
    };
  },
};

/**
 * What entering C++ costs. The addon exports no empty function. This one takes no argument and returns a number that is
 * constant while nothing waits.
 *
 * @type {Subject}
 */
const addonCall = {
  name: 'floor: Node-API call, no argument',
  packages: [],
  can: ['sync'],
  create: () => undefined,
  open: () => {
    const addon = loadAddon();
    return { acquireSync: () => addon.nextDeadline(), release: () => undefined };
  },
};

/**
 * The same with a string, which it copies and hashes. Each acquisition would begin with this if C++ did the hashing.
 *
 * @type {Subject}
 */
const addonHash = {
  name: 'floor: Node-API call, hashes the string',
  packages: [],
  can: ['sync'],
  create: () => undefined,
  open: () => {
    const addon = loadAddon();
    return { acquireSync: (key) => addon.hash(key, 1024), release: () => undefined };
  },
};

/**
 * A promise that an AbortSignal rejects, and nothing else. Cancelling a waiter by a signal cannot cost less.
 *
 * @type {Subject}
 */
const abortSignal = {
  name: 'floor: AbortSignal alone',
  packages: [],
  can: ['run', 'abort'],
  create: () => undefined,
  open: () => ({
    run: (_key, section, signal) =>
      signal === undefined
        ? section()
        : new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason), { once: true });
          }),
  }),
};

/**
 * No lock at all. It shows what the threads do when nothing delays them, and that the counts reveal a missing lock. Its
 * name says that it is not a lock, so it may miscount.
 *
 * @type {Subject}
 */
const noLock = {
  name: 'floor: no lock',
  packages: [],
  can: ['sync', 'run', 'many', 'shared', 'threads'],
  unsound: true,
  create: () => undefined,
  open: () => {
    const take = () => undefined;
    return {
      acquireSync: take,
      acquireSharedSync: take,
      acquireManySync: take,
      release: take,
      run: (_key, section) => section(),
      runMany: (_keys, section) => section(),
      runShared: (_key, section) => section(),
    };
  },
};

/**
 * The addon that stripelock has loaded already, and started for this thread.
 *
 * @returns {{ nextDeadline(): number, hash(key: string, stripes: number): number }}
 */
function loadAddon() {
  new StripedLock({ engine: 'native' });
  return bindings({
    bindings: 'stripelock.node',
    module_root: path.resolve(import.meta.dirname, '../..'),
  });
}

export const floors = {
  compareExchange,
  wasmCompareExchange,
  bareAwait,
  addonCall,
  addonHash,
  abortSignal,
  noLock,
};
