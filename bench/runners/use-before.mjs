// What a thread does before something is measured in it.

import { openLock } from '../subjects/index.mjs';
import { collectGarbage } from '../support/garbage.mjs';
import { loops } from './loops.mjs';

/** The number of other locks of a thread, and of operations of each kind on each of them: V8 optimizes all of these. */
const LOCKS = 3;
const OPERATIONS = 20_000;
const KEYS = ['account:1', 'account:2', 'account:3', 'account:4'];

/** @type {Record<string, import('../subjects/index.mjs').Ability[]>} */
const needs = {
  sync: ['sync'],
  try: ['try'],
  async: ['acquire'],
  run: ['run'],
  syncShared: ['sync', 'shared'],
  tryShared: ['try', 'shared'],
  asyncShared: ['acquire', 'shared'],
  syncMany: ['sync', 'many'],
  tryMany: ['try', 'many'],
  asyncMany: ['acquire', 'many'],
};

/**
 * Uses other locks of the subject in every way that it offers. A benchmark that knows one lock and one way to use it
 * flatters: V8 makes the code for just that.
 *
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {{ stripes: number }} settings
 */
export async function useInEveryWay(subject, settings) {
  const counter = new Float64Array(1);
  const able = Object.keys(needs).filter((operation) =>
    needs[operation].every((need) => subject.can.includes(need)),
  );
  for (let i = 0; i < LOCKS; i++) {
    const lock = await openLock(subject, subject.create(settings));
    for (const operation of able) {
      const keys = operation.endsWith('Many') ? [KEYS, KEYS.toReversed()] : [...KEYS, 17, 2 ** 40];
      await loops[operation](lock, keys, counter)(OPERATIONS);
    }
    await lock.close?.();
  }
}

/** Locks between two collections of garbage. */
const COLLECTED = 50;

/**
 * Uses that many other locks once each, one after the other, and lets them be collected.
 *
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {{ stripes: number }} settings
 * @param {number} count
 */
export async function openAndDrop(subject, settings, count) {
  for (let i = 1; i <= count; i++) {
    const lock = await openLock(subject, subject.create(settings));
    lock.release(lock.acquireSync(KEYS[0]));
    if (i % COLLECTED === 0) await collectGarbage();
  }
}
