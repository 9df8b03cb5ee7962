// Makes many locks, and drops them. Prints as JSON how long it took to open each one, in milliseconds, as the mean of
// each part of the locks.
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { StripedLock } from 'stripelock';

const LOCKS = 40_000;
const PART = 500;

let locks = [];
const opening = [];
for (let i = 0; i < LOCKS; i += PART) {
  const start = performance.now();
  for (let j = 0; j < PART; j++) locks.push(new StripedLock({ engine: 'native', stripes: 1 }));
  opening.push((performance.now() - start) / PART);
}

// All of them work.
for (const lock of locks) lock.tryAcquire('key');
assert.equal(locks.filter((lock) => lock.stats().held === 1).length, LOCKS);
const guards = locks.map((lock) => lock.tryAcquire('key'));
assert.equal(guards.filter((guard) => guard !== undefined).length, 0);

// And all are closed when they are collected.
const last = locks.at(-1);
locks = [];
for (let i = 0; i < 5; i++) {
  globalThis.gc();
  await nextTurn();
}
assert.equal(last.stats().held, 1);
console.log(JSON.stringify({ opening }));
