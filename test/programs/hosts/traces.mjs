// `trace: true` names the line of the program that acquired.

import { StripedLock } from 'stripelock';
import { check } from './support.mjs';

/**
 * @param {StripedLock} lock
 * @param {RegExp} place
 * @param {string} how
 */
function expectPlace(lock, place, how) {
  const acquiredAt = lock.inspect()[0]?.holders[0]?.acquiredAt ?? 'nowhere';
  check(place.test(acquiredAt), `${how} names ${acquiredAt}`);
}

export async function trace() {
  const lock = new StripedLock({ trace: true });
  const here = /traces\.mjs:\d+/;
  const sync = lock.acquireSync('a');
  expectPlace(lock, here, 'acquireSync');
  sync.release();
  const attempt = lock.tryAcquire('a');
  expectPlace(lock, here, 'tryAcquire');
  attempt?.release();
  const awaited = await lock.acquire('a');
  expectPlace(lock, here, 'acquire');
  awaited.release();
  lock.withLockSync('a', () => expectPlace(lock, here, 'withLockSync'));
  await lock.withLock('a', () => expectPlace(lock, here, 'withLock'));
}

/** Bun and Deno run TypeScript as it is. Node runs what `typescript` has made of it, with a source map. */
export async function traceMapped() {
  const own = 'Bun' in globalThis || 'Deno' in globalThis;
  const { acquireAll } = await import(own ? './traced.ts' : './traced.js');
  await acquireAll(expectPlace);
}
