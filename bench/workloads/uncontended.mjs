// One thread, nobody else: what a lock costs when it is free.

import bindings from 'bindings';
import { subjects } from '../subjects/index.mjs';

const HOT_KEY = 'account:1234567';
const EIGHT_KEYS = Array.from({ length: 8 }, (_, i) => `account:${i * 7919}`);
const words = new Int32Array(new SharedArrayBuffer(64 * 8));

function pair(index) {
  Atomics.compareExchange(words, index, 0, 1);
  Atomics.compareExchange(words, index, 1, 0);
}

const barePair = { name: 'floor: bare compare-exchange pair', run: () => pair(0) };

/** What the fast path saves: entering C++ with the key costs this alone, before anything is locked. */
function callWithString() {
  let addon;
  try {
    addon = bindings({
      bindings: 'stripelock.node',
      module_root: new URL('../..', import.meta.url).pathname,
    });
  } catch {
    return [];
  }
  return [{ name: 'call into C++ with the string', run: () => addon.hash(HOT_KEY, 1024) }];
}

export const uncontended = [
  {
    name: 'hot string key, acquireSync + release',
    rows: () => [barePair, ...callWithString(), ...rows('sync', HOT_KEY)],
  },
  {
    name: 'hot integer key, acquireSync + release',
    rows: () => [barePair, ...rows('sync', 1234567)],
  },
  {
    name: '8 hot keys, acquireSync + release',
    rows: () => [
      {
        name: 'floor: eight bare compare-exchange pairs',
        run: () => {
          for (let i = 0; i < 128; i += 16) pair(i);
        },
      },
      ...rows('syncMany', EIGHT_KEYS),
    ],
  },
  {
    name: 'hot string key, await acquire + release',
    async: true,
    rows: () => [
      { name: 'floor: await of a settled promise', run: () => Promise.resolve() },
      ...rows('async', HOT_KEY),
    ],
  },
  {
    name: '8 hot keys, await acquire + release',
    async: true,
    rows: () => rows('asyncMany', EIGHT_KEYS),
  },
];

function rows(operation, argument) {
  return subjects
    .filter((subject) => subject[operation])
    .map((subject) => ({ name: subject.name, run: () => subject[operation](argument) }));
}
