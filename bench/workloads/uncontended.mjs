// One thread, nobody else: what a lock costs when it is free.

import { floors } from '../subjects/floors.mjs';

const HOT_KEY = 'account:1234567';
const STRIPES = 1024;

const keysNamed = (count) => Array.from({ length: count }, (_, i) => `account:${i * 7919}`);

/** A batch of the loops in runners/single.mjs. */
const workload = (name, operation, needs, makeKeys, more = {}) => ({
  name,
  group: 'uncontended',
  runner: 'single',
  operation,
  needs,
  makeKeys,
  stripes: STRIPES,
  keys: 1,
  floors: [],
  ...more,
});

const twice = (key) => [key, key];
const oneKey = () => twice(HOT_KEY);
const eightKeys = () => twice(keysNamed(8));
const millionKeys = () => keysNamed(1_000_000);
const pair = floors.compareExchange;

/** To be awaited, whether the subject gives out what it holds or calls back. */
const AWAITED = ['acquire', 'run'];

export const uncontended = [
  workload('sync, hot string key', 'sync', ['sync'], oneKey, {
    floors: [pair, floors.addonCall, floors.addonHash],
  }),
  workload('sync, integer key', 'sync', ['sync'], () => twice(1_234_567), { floors: [pair] }),
  workload('sync, 8 hot keys', 'syncMany', ['sync', 'many'], eightKeys, { keys: 8, floors: [pair] }),
  workload('sync, 64 keys', 'syncMany', ['sync', 'many'], () => twice(keysNamed(64)), {
    keys: 64,
    floors: [pair],
  }),
  workload('sync, 1,000,000 distinct keys', 'sync', ['sync'], millionKeys, {
    keys: 1_000_000,
  }),
  workload('sync, 64 hot keys, each time a new string', 'syncFresh', ['sync'], oneKey, { keys: 64 }),
  workload('sync, a key of 4 KiB', 'sync', ['sync'], () => twice('k'.repeat(4096))),
  workload('sync, shared mode', 'syncShared', ['sync', 'shared'], oneKey),
  workload('try, hot string key', 'try', ['try'], oneKey, { floors: [pair] }),
  workload('async, hot string key', 'async', [AWAITED], oneKey, { floors: [floors.bareAwait] }),
  workload('async, hot string key, with a callback', 'run', ['run'], oneKey, { floors: [floors.bareAwait] }),
  workload('async, 8 hot keys', 'asyncMany', [AWAITED, 'many'], eightKeys, { keys: 8 }),
  workload('async, shared mode', 'asyncShared', [AWAITED, 'shared'], oneKey),
];
