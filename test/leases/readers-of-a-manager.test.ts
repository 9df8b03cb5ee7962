import { describe, expect, it } from 'vitest';
import {
  MemoryLeaseStore,
  revokeLease,
  type AcquireLeaseOptions,
  type Lease,
  type SharedLeaseStore,
} from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { turns, watch } from '../support/waiting.js';
import { managerOn, PATIENT, SHARED, TTL } from './shared-setup.js';

// The requests of a manager with several readers of a key.

/** Records the arguments of the calls of a method of the store. */
function counting<S extends SharedLeaseStore>(store: S, method: keyof S): { counted: S; calls: unknown[][] } {
  const calls: unknown[][] = [];
  const counted = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...of: unknown[]): unknown => {
        if (name === method) calls.push(of);
        return Reflect.apply(value, target, of);
      };
    },
  });
  return { counted, calls };
}

describe('the readers of one manager', () => {
  const READERS = 60;

  /** A manager with readers of one key, and its requests to renew. */
  async function reading(
    options: readonly AcquireLeaseOptions[],
  ): Promise<{ clock: FixedClock; store: SharedLeaseStore; leases: Lease[]; calls: unknown[][] }> {
    const clock = new FixedClock(Date.now());
    const store = new MemoryLeaseStore({ clock });
    const { counted, calls } = counting(store, 'renew');
    const manager = managerOn(counted, { clock, ttl: TTL });
    const leases = await Promise.all(
      options.map((option) => manager.acquire('key', { ...SHARED, ...option })),
    );
    return { clock, store, leases, calls };
  }

  it('renew their group once each time', async () => {
    const { clock, leases, calls } = await reading(Array.from({ length: READERS }, () => ({})));
    for (let times = 1; times <= 10; times++) {
      clock.advance(TTL / 3);
      await turns();
      expect(calls).toHaveLength(times);
    }
    expect(leases.every(({ held }) => held)).toBe(true);
    expect(new Set(leases.map(({ expiresAt }) => expiresAt))).toEqual(new Set([clock.now() + TTL]));
  });

  it('that have different TTLs renew it for the longest, and keep separate deadlines', async () => {
    const { clock, leases, calls } = await reading([{}, { ttl: 2 * TTL }, { ttl: TTL / 2 }]);
    const renewing = leases.map((lease) => lease.renew());
    const [{ holder }] = leases as [Lease];
    expect(await Promise.all(renewing)).toEqual([true, true, true]);
    expect(calls).toEqual([['key', holder, 2 * TTL]]);
    expect(leases.map(({ expiresAt }) => expiresAt - clock.now())).toEqual([TTL, 2 * TTL, TTL / 2]);
  });

  it('all notice that the group has ended', async () => {
    const { clock, store, leases } = await reading([{}, {}, {}]);
    expect(await revokeLease(store, 'key')).toBe(true);
    expect(await Promise.all(leases.map((lease) => lease.renew()))).toEqual([false, false, false]);
    expect(leases.map(({ signal }) => signal.aborted)).toEqual([true, true, true]);
    clock.advance(TTL);
  });

  it('all get the error of a renewal, and stay held until their deadlines', async () => {
    const { clock, store, leases } = await reading([{}, {}, {}]);
    store.renew = () => Promise.reject(new Error('the network is down'));
    for (const result of await Promise.allSettled(leases.map((lease) => lease.renew())))
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'ERR_LEASE_STORE' } });
    expect(leases.every(({ held }) => held)).toBe(true);
    clock.advance(TTL);
    expect(leases.some(({ held }) => held)).toBe(false);
  });

  it('over a store that reports no releases wake a writer only when the last one leaves', async () => {
    const store = new MemoryLeaseStore();
    const { counted, calls } = counting(store, 'tryAcquire');
    const silent = new Proxy(counted, {
      get: (target, name) =>
        name === 'onRelease' ? undefined : (Reflect.get(target, name, target) as unknown),
    });
    const manager = managerOn(silent, { backoff: { initial: 50_000, max: 50_000, jitter: 0 } });
    const readers = [await manager.acquire('key', SHARED), await manager.acquire('key', SHARED)];
    const writing = watch(manager.acquire('key', { timeout: PATIENT }));
    await turns();
    expect(await readers[0]!.release()).toBe(true);
    await turns();
    expect([writing.state, calls.length]).toEqual(['pending', 1]);
    expect(await readers[1]!.release()).toBe(true);
    expect(await (await writing.promise).release()).toBe(true);
  });
});
