import { expect, it } from 'vitest';
import {
  LeaseManager,
  MemoryLeaseStore,
  revokeLease,
  type ExactLeaseStore,
  type LeaseLostError,
  type LeaseStore,
} from 'stripelock';
import { keptOwner } from '../../unbundled/lease/contract/lease-store.js';
import { onFixedClock } from './fixed-time.js';
import { turns } from '../support/waiting.js';

// `revokeLease`: the rules that the contract of stores does not test.

it('a lease that renews itself is lost at its next renewal, and its signal says why', async () => {
  const { clock, manager } = onFixedClock();
  const lease = await manager.acquire('key');
  expect(await revokeLease(manager.store, 'key')).toBe(true);
  expect(lease.held).toBe(true);
  clock.advance(100);
  await turns(10);
  expect(lease.held).toBe(false);
  const { key, token } = lease.signal.reason as LeaseLostError;
  expect([key, token]).toEqual(['key', lease.token]);
});

it('only the slot that is named ends', async () => {
  const leases = new LeaseManager();
  const [one, two] = [await leases.acquire('key', { limit: 2 }), await leases.acquire('key', { limit: 2 })];
  expect(await revokeLease(leases.store, 'key#slot1')).toBe(true);
  const held = await Promise.all([one, two].map((lease) => lease.renew()));
  expect(held).toEqual([one, two].map(({ slot }) => slot === 0));
  await leases.close();
});

it('what `minHold` left of a lease ends, too', async () => {
  const store = new MemoryLeaseStore();
  const leases = new LeaseManager({ store });
  const lease = await leases.acquire('key', { minHold: 60_000 });
  await lease.release();
  expect(await leases.tryAcquire('key')).toBeUndefined();
  expect(await store.list()).toMatchObject([
    { key: 'key', owner: keptOwner(lease.holder), token: lease.token },
  ]);
  expect(await revokeLease(leases.store, 'key')).toBe(true);
  expect((await leases.tryAcquire('key'))?.abandoned).toBe(false);
  await leases.close();
});

/** A store in which something happens between `inspect` and the release that follows. */
function interrupted(store: ExactLeaseStore, happens: () => Promise<unknown>): ExactLeaseStore {
  return {
    tryAcquire: (...of) => store.tryAcquire(...of),
    renew: (...of) => store.renew(...of),
    keep: (...of) => store.keep(...of),
    release: (...of) => store.release(...of),
    async inspect(key) {
      const state = await store.inspect(key);
      await happens();
      return state;
    },
  };
}

it.each([
  ['the same owner', 'a'],
  ['another owner', 'b'],
])('a grant to %s that follows in between stays', async (_, owner) => {
  const store = new MemoryLeaseStore();
  await store.tryAcquire('key', 'a', 60_000);
  let next: bigint | undefined;
  const between = interrupted(store, async () => {
    await store.release('key', 'a');
    next = await store.tryAcquire('key', owner, 60_000);
  });
  expect(await revokeLease(between, 'key')).toBe(false);
  expect(await store.inspect('key')).toMatchObject({ owner, token: next });
});

it('a lease that is released in between is not held any more', async () => {
  const store = new MemoryLeaseStore();
  await store.tryAcquire('key', 'a', 60_000);
  expect(
    await revokeLease(
      interrupted(store, () => store.release('key', 'a')),
      'key',
    ),
  ).toBe(false);
});

it('a store without exact releases frees the lease of that owner', async () => {
  const store = new MemoryLeaseStore();
  const plain: LeaseStore = {
    tryAcquire: (...of) => store.tryAcquire(...of),
    renew: (...of) => store.renew(...of),
    inspect: (key) => store.inspect(key),
    release: (key, owner) => store.release(key, owner),
  };
  await store.tryAcquire('key', 'a', 60_000);
  expect(await revokeLease(plain, 'key')).toBe(true);
  expect(await store.inspect('key')).toBeUndefined();
});

it('bad arguments are refused', async () => {
  const store = new MemoryLeaseStore();
  await expect(revokeLease({}, 'key')).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  await expect(revokeLease(new LeaseManager(), 'key')).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
  });
  await expect(revokeLease(store, 5 as never)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  await expect(revokeLease(store, '')).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
});
