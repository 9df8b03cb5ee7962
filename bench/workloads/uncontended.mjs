// A single thread: what a lock costs when it is free.

import { floors } from '../subjects/floors.mjs';

const HOT_KEY = 'account:1234567';
const STRIPES = 1024;
const MANY = 1_000_000;

const keysNamed = (/** @type {number} */ count) =>
  Array.from({ length: count }, (_, i) => `account:${i * 7919}`);
/**
 * Keys come from an array, even if there is only one; see runners/loops.mjs.
 *
 * @template T
 * @param {T} key
 */
const twice = (key) => [key, key];

/**
 * What is locked.
 *
 * @typedef {object} Kind
 * @property {string} name
 * @property {'Many' | 'Shared' | 'Fresh'} [form] Part of the names of the loop and of the required abilities.
 * @property {number} [keys]
 * @property {() => unknown[]} makeKeys
 */

/** @satisfies {Record<string, Kind>} */
const kinds = {
  hot: { name: 'hot string key', makeKeys: () => twice(HOT_KEY) },
  integer: { name: 'integer key', makeKeys: () => twice(1_234_567) },
  eight: { name: '8 hot keys', form: 'Many', keys: 8, makeKeys: () => twice(keysNamed(8)) },
  sixtyFour: { name: '64 keys', form: 'Many', keys: 64, makeKeys: () => twice(keysNamed(64)) },
  million: { name: '1,000,000 distinct keys', keys: MANY, makeKeys: () => keysNamed(MANY) },
  fresh: { name: '64 hot keys, each time a new string', form: 'Fresh', keys: 64, makeKeys: () => [] },
  large: { name: 'a key of 4 KiB', makeKeys: () => twice('k'.repeat(4096)) },
  shared: { name: 'shared mode', form: 'Shared', makeKeys: () => twice(HOT_KEY) },
};

/** @type {Record<string, import('./index.mjs').Ability[]>} */
const abilityOf = { Many: ['many'], Shared: ['shared'], Fresh: [] };

/** For awaited operations: the subject either returns what it holds or calls back. */
const AWAITED = /** @type {const} */ (['acquire', 'run']);
const needs = /** @type {const} */ ({ sync: 'sync', try: 'try', async: AWAITED, run: 'run' });
const pairs = [floors.compareExchange, floors.wasmCompareExchange];
const floorsOf = { sync: pairs, try: pairs, async: [floors.bareAwait], run: [floors.bareAwait] };

/**
 * A batch of the loop in runners/loops.mjs that is named after how and what.
 *
 * @param {keyof typeof needs} how
 * @param {Kind} kind
 * @param {readonly import('./index.mjs').Subject[]} [moreFloors]
 * @returns {import('./index.mjs').SingleWorkload}
 */
function workload(how, { name, form, keys = 1, makeKeys }, moreFloors = []) {
  return {
    name: `${how === 'run' ? 'async' : how}, ${name}${how === 'run' ? ', with a callback' : ''}`,
    group: 'uncontended',
    runner: 'single',
    operation: `${how}${form ?? ''}`,
    needs: [needs[how], ...(form === undefined ? [] : abilityOf[form])],
    makeKeys,
    stripes: STRIPES,
    keys,
    floors: [...floorsOf[how], ...moreFloors],
  };
}

const { hot, integer, eight, sixtyFour, million, fresh, large, shared } = kinds;

export const uncontended = [
  workload('sync', hot, [floors.addonCall, floors.addonHash]),
  workload('sync', integer),
  workload('sync', eight),
  workload('sync', sixtyFour),
  workload('sync', million),
  workload('sync', fresh),
  workload('sync', large),
  workload('sync', shared),
  workload('try', hot),
  workload('try', eight),
  workload('async', hot),
  workload('run', hot),
  workload('async', integer),
  workload('async', eight),
  workload('async', sixtyFour),
  workload('async', million),
  workload('async', large),
  workload('async', shared),
];

/** An attempt that does not need to wait differs little from a blocking acquisition. */
export const uncontendedMore = [integer, sixtyFour, million, fresh, large, shared].map((kind) =>
  workload('try', kind),
);
