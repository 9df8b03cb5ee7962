import { keptOwner, type AbandonmentLeaseStore, type GrantDetails } from '../lease/contract/lease-store.js';
import { LeaseManager } from '../lease/manager.js';
import { revokeLease } from '../lease/revoke.js';
import type { Scene, Sentence } from './framework.js';
import { oneStep } from './several-keys.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

const storeOf = (on: Scene): AbandonmentLeaseStore => on.store as AbandonmentLeaseStore;

interface Granted {
  readonly token: bigint;
  readonly abandoned: boolean | undefined;
}

async function grantTo(on: Scene, owner: string, ttl = LONG, key = 'key'): Promise<Granted> {
  const details: GrantDetails = {};
  const token = await storeOf(on).tryAcquire(key, owner, ttl, undefined, details);
  if (token === undefined) throw new Error(`${owner} was not granted ${key}`);
  on.expect(details.abandoned?.length).toBe(1);
  return { token, abandoned: details.abandoned?.[0] };
}

/** Leaves the key without a release. */
async function abandon(on: Scene, key = 'key'): Promise<void> {
  await grantTo(on, 'gone', on.ttl, key);
  await on.expire();
}

async function expectNext(on: Scene, abandoned: boolean): Promise<void> {
  on.expect((await grantTo(on, 'next')).abandoned).toBe(abandoned);
}

/** Defines a rule that is checked only for stores that report abandonment. */
function sentence(name: string, test: (on: Scene) => Promise<void>): Sentence {
  return [name, async (on) => (on.reportsAbandonment ? test(on) : undefined)];
}

/** The rules for stores that report that a holder left its key without a release. */
export const abandonment: readonly Sentence[] = [
  sentence('the first holder of a key finds it in order', (on) => expectNext(on, false)),
  sentence('the holder after a release finds it in order, again and again', async (on) => {
    for (let i = 0; i < 3; i++) {
      const { token, abandoned } = await grantTo(on, `owner ${i}`);
      on.expect(abandoned).toBe(false);
      on.expect(await storeOf(on).release('key', `owner ${i}`, i === 1 ? undefined : token)).toBe(true);
    }
    await expectNext(on, false);
  }),
  sentence('the holder after an expiry finds it abandoned, and the one after that does not', async (on) => {
    await abandon(on);
    const { token, abandoned } = await grantTo(on, 'next');
    on.expect(abandoned).toBe(true);
    on.expect(await storeOf(on).release('key', 'next', token)).toBe(true);
    await expectNext(on, false);
  }),
  sentence('an expired lease that its own holder takes again was abandoned', async (on) => {
    await abandon(on);
    on.expect((await grantTo(on, 'gone')).abandoned).toBe(true);
  }),
  sentence('it is abandoned after renewals, too', async (on) => {
    const asked = on.now();
    await grantTo(on, 'gone', on.ttl);
    const renewed = await storeOf(on).renew('key', 'gone', on.ttl);
    on.requireWithin(on.ttl, asked);
    on.expect(renewed).toBe(true);
    await on.expire();
    await expectNext(on, true);
  }),
  sentence('the use of other keys does not change that', async (on) => {
    await abandon(on);
    for (let i = 0; i < 20; i++) {
      await grantTo(on, 'other', LONG, `other ${i}`);
      await storeOf(on).release(`other ${i}`, 'other');
    }
    await expectNext(on, true);
  }),
  sentence('a refused attempt and a late release do not change that', async (on) => {
    const asked = on.now();
    const { token } = await grantTo(on, 'gone', on.ttl);
    const refused = await storeOf(on).tryAcquire('key', 'refused', LONG);
    on.requireWithin(on.ttl, asked);
    on.expect(refused).toBe(undefined);
    await on.expire();
    on.expect(await storeOf(on).release('key', 'gone', token)).toBe(false);
    on.expect(await storeOf(on).release('key', 'gone')).toBe(false);
    on.expect(await storeOf(on).renew('key', 'gone', LONG)).toBe(false);
    await expectNext(on, true);
  }),
  sentence('an owner that takes its live lease again finds what its last grant found', async (on) => {
    await grantTo(on, 'same');
    on.expect((await grantTo(on, 'same')).abandoned).toBe(false);
    await storeOf(on).release('key', 'same');
    await abandon(on);
    on.expect((await grantTo(on, 'same')).abandoned).toBe(true);
    const { token, abandoned } = await grantTo(on, 'same');
    on.expect(abandoned).toBe(true);
    on.expect(await storeOf(on).release('key', 'same', token)).toBe(true);
    await expectNext(on, false);
  }),
  sentence('a grant that was kept to its end was released', async (on) => {
    await abandon(on);
    const { token } = await grantTo(on, 'a');
    const asked = on.now();
    const kept = await storeOf(on).keep('key', 'a', on.ttl, token);
    const renewed = await storeOf(on).renew('key', 'a', on.ttl);
    on.requireWithin(on.ttl, asked);
    on.expect([kept, renewed]).toEqual([true, false]);
    await on.expire();
    await expectNext(on, false);
  }),
  sentence('an unused grant that is taken back leaves the key as it was', async (on) => {
    const first = await grantTo(on, 'a');
    on.expect(await storeOf(on).takeBack('key', 'a', first.token, false)).toBe(true);
    on.expect(await on.store.inspect('key')).toBe(undefined);
    on.expect(await storeOf(on).takeBack('key', 'a', first.token, true)).toBe(false);
    await abandon(on);
    for (const owner of ['b', 'c']) {
      const { token, abandoned } = await grantTo(on, owner);
      on.expect(abandoned).toBe(true);
      on.expect(await storeOf(on).takeBack('key', owner, token, false)).toBe(true);
      on.expect(await on.store.inspect('key')).toBe(undefined);
      on.expect(await storeOf(on).renew('key', owner, LONG)).toBe(false);
    }
    await expectNext(on, true);
  }),
  sentence('a used grant that is taken back was abandoned', async (on) => {
    const { token } = await grantTo(on, 'a');
    on.expect(await storeOf(on).takeBack('key', 'b', token, true)).toBe(false);
    on.expect(await storeOf(on).takeBack('key', 'a', token - 1n, true)).toBe(false);
    on.expect((await on.store.inspect('key'))?.token).toBe(token);
    on.expect(await storeOf(on).takeBack('key', 'a', token, true)).toBe(true);
    on.expect(await on.store.inspect('key')).toBe(undefined);
    const next = await grantTo(on, 'next');
    on.expect([next.abandoned, next.token > token]).toEqual([true, true]);
  }),
  sentence('a kept grant that is taken back was released', async (on) => {
    const { token } = await grantTo(on, 'a');
    on.expect(await storeOf(on).keep('key', 'a', LONG, token)).toBe(true);
    on.expect(await storeOf(on).takeBack('key', 'a', token, true)).toBe(false);
    on.expect(await storeOf(on).takeBack('key', keptOwner('a'), token, true)).toBe(true);
    await expectNext(on, false);
  }),
  sentence('of several keys in one step, it is reported for each, in their order', async (on) => {
    if (oneStep(on.store) === undefined) return;
    await abandon(on, 'b');
    const details: GrantDetails = {};
    const tokens = await oneStep(on.store)!.tryAcquireAll(['c', 'b', 'a'], 'me', LONG, undefined, details);
    on.expect(typeof tokens).toBe('object');
    on.expect(details.abandoned).toEqual([false, true, false]);
    const again: GrantDetails = {};
    await oneStep(on.store)!.tryAcquireAll(['a', 'b'], 'me', LONG, undefined, again);
    on.expect(again.abandoned).toEqual([false, true]);
    on.expect(await oneStep(on.store)!.releaseAll(['a', 'b', 'c'], 'me')).toEqual([true, true, true]);
    for (const key of ['a', 'b', 'c']) {
      on.expect((await grantTo(on, 'next', LONG, key)).abandoned).toBe(false);
    }
  }),
  sentence('a lease shows it, and a waiter that is woken by a revocation', async (on) => {
    await abandon(on);
    const one = new LeaseManager({ store: on.store, ttl: LONG });
    const other = new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
    const first = await one.acquire('key', { timeout: 30_000 });
    on.expect(first.abandoned).toBe(true);
    const waiting = other.acquire('key', { timeout: 30_000 });
    on.expect(await first.release()).toBe(true);
    const second = await waiting;
    on.expect(second.abandoned).toBe(false);
    const next = one.acquire('key', { timeout: 30_000 });
    on.expect(await revokeLease(on.store, 'key')).toBe(true);
    const third = await next;
    on.expect(third.abandoned).toBe(true);
    on.expect(await third.release()).toBe(true);
  }),
  sentence('a minHold that ends is no abandonment', async (on) => {
    const one = new LeaseManager({ store: on.store, ttl: on.ttl });
    const asked = on.now();
    const lease = await one.acquire('key', { minHold: on.ttl });
    const released = await lease.release();
    on.requireWithin(on.ttl, asked);
    on.expect(released).toBe(true);
    await on.expire();
    await expectNext(on, false);
  }),
];
