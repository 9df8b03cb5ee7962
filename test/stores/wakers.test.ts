import { expect, it, onTestFinished } from 'vitest';
import { Wakers } from '../../unbundled/stores/wakers.js';

/** Milliseconds: longer than any test. */
const LONG = 1_000_000_000;

function made(): Wakers {
  const wakers = new Wakers(undefined);
  onTestFinished(() => wakers.close());
  return wakers;
}

it('a waiter is woken at the earliest of the times that several answers named', async () => {
  const wakers = made();
  let woken = 0;
  wakers.listen('key', () => woken++);
  for (const wakeIn of [LONG, 5, LONG]) wakers.refused('key', wakeIn, true);
  await expect.poll(() => woken, { timeout: 20_000 }).toBe(1);
  // The next answer counts again.
  wakers.refused('key', 5, true);
  await expect.poll(() => woken, { timeout: 20_000 }).toBe(2);
});

it('attempts of readers wake the next waiters until a writer of the store is granted the key', () => {
  const wakers = made();
  const woken: string[] = [];
  for (const name of ['a', 'b', 'c', 'd']) wakers.listen('key', () => woken.push(name));
  const attempt = (granted: 'shared' | 'exclusive'): void => {
    wakers.attempt(['key'])!(granted);
    wakers.askedShared('key');
  };
  wakers.released('key');
  attempt('shared');
  expect(woken.splice(0)).toEqual(['a', 'b']);
  attempt('exclusive');
  attempt('shared');
  expect(woken).toEqual([]);
  wakers.released('key');
  expect(woken).toEqual(['c']);
});
