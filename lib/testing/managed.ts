import type { LeaseStore } from '../lease/contract/lease-store.js';
import { LeaseManager } from '../lease/manager.js';
import { revokeLease } from '../lease/revoke.js';
import { codeOf, type Sentence } from './framework.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const ttl = 600_000;

/** Returns a client of the store whose connection breaks once, after a grant and before its reply. */
function losingOneGrant(store: LeaseStore): LeaseStore {
  let lost = false;
  return {
    async tryAcquire(key, owner, milliseconds) {
      const token = await store.tryAcquire(key, owner, milliseconds);
      if (lost || token === undefined) return token;
      lost = true;
      throw new Error('the connection was lost');
    },
    renew: (...of) => store.renew(...of),
    release: (...of) => store.release(...of),
    inspect: (key) => store.inspect(key),
  };
}

/** The rules that a manager depends on. */
export const managed: readonly Sentence[] = [
  [
    'a body runs only if the key was free, and it is free again afterwards, also when the body fails',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl });
      const other = new LeaseManager({ store: on.store, ttl });
      const result = await one.withLease('key', async () => {
        on.expect(await other.withLease('key', { ifAvailable: true }, () => 'ran')).toBe(undefined);
        return 'done';
      });
      on.expect(result).toBe('done');
      const failure = Object.assign(new Error('the body fails'), { code: 'BODY' });
      on.expect(await codeOf(() => other.withLease('key', () => Promise.reject(failure)))).toBe('BODY');
      on.expect(await one.withLease('key', { ifAvailable: true }, () => 'ran')).toBe('ran');
    },
  ],
  [
    'who waits has it after its release, with a higher token',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl });
      const other = new LeaseManager({ store: on.store, ttl, backoff: { initial: 5, max: 20 } });
      const first = await one.acquire('key');
      const waiting = other.acquire('key', { timeout: 30_000 });
      on.expect(await first.release()).toBe(true);
      const second = await waiting;
      on.expect(second.token > first.token).toBe(true);
      on.expect(await first.release()).toBe(false);
      on.expect(second.held).toBe(true);
      on.expect(await second.release()).toBe(true);
    },
  ],
  [
    'waiting ends with a timeout error, and takes nothing',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl });
      const other = new LeaseManager({ store: on.store, ttl });
      const held = await one.acquire('key');
      on.expect(await codeOf(() => other.acquire('key', { timeout: 30 }))).toBe('ERR_LOCK_TIMEOUT');
      on.expect(await held.release()).toBe(true);
      // The last attempt of `other` may still be granted, or may just have been granted.
      // That grant is then given back.
      const next = new LeaseManager({ store: on.store, ttl, backoff: { initial: 5, max: 20 } });
      const lease = await next.acquire('key', { timeout: 30_000 });
      on.expect(await lease.release()).toBe(true);
    },
  ],
  [
    'a holder that comes back under its name has its lease back at once',
    async (on) => {
      const before = new LeaseManager({ store: on.store, ttl, holder: 'worker 1', renew: false });
      const first = await before.acquire('key');
      const after = new LeaseManager({ store: on.store, ttl, holder: 'worker 1' });
      const again = await after.tryAcquire('key');
      on.expect(again !== undefined && again.token > first.token).toBe(true);
      const stranger = new LeaseManager({ store: on.store, ttl, holder: 'worker 2' });
      on.expect(await stranger.tryAcquire('key')).toBe(undefined);
      on.expect(await again?.release()).toBe(true);
    },
  ],
  [
    'acquisitions that share a lease hold it until the last of them has released it',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl, reentrant: true });
      const other = new LeaseManager({ store: on.store, ttl });
      const first = await one.acquire('key');
      const second = await one.acquire('key');
      on.expect(second.token).toBe(first.token);
      on.expect(await first.release()).toBe(false);
      on.expect([first.held, second.held]).toEqual([false, true]);
      on.expect(await other.tryAcquire('key')).toBe(undefined);
      on.expect(await second.release()).toBe(true);
      on.expect(await (await other.tryAcquire('key'))?.release()).toBe(true);
    },
  ],
  [
    'an acquisition whose grant was lost on the way does not wait for it',
    async (on) => {
      const store = losingOneGrant(on.store);
      const manager = new LeaseManager({ store, ttl, backoff: { initial: 5, max: 20 } });
      const lease = await manager.acquire('key', { timeout: 30_000 });
      on.expect((await on.store.inspect('key'))?.owner).toBe(lease.holder);
      on.expect(await lease.release()).toBe(true);
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'a single attempt whose grant was lost on the way fails, and leaves the key to others',
    async (on) => {
      const store = losingOneGrant(on.store);
      const manager = new LeaseManager({ store, ttl });
      on.expect(await codeOf(() => manager.tryAcquire('key'))).toBe('ERR_LEASE_STORE');
      const other = new LeaseManager({ store: on.store, ttl, backoff: { initial: 5, max: 20 } });
      const lease = await other.acquire('key', { timeout: 30_000 });
      on.expect(await lease.release()).toBe(true);
    },
  ],
  [
    'a key with a limit has as many holders, each with a slot and a token of its own',
    async (on) => {
      const managers = [
        new LeaseManager({ store: on.store, ttl }),
        new LeaseManager({ store: on.store, ttl }),
      ];
      const leases = [];
      for (let i = 0; i < 3; i++) leases.push(await managers[i % 2]!.acquire('key', { limit: 3 }));
      on.expect(leases.map(({ slot }) => slot).sort()).toEqual([0, 1, 2]);
      on.expect(leases.map(({ key }) => key)).toEqual(['key', 'key', 'key']);
      on.expect(await managers[0]!.tryAcquire('key', { limit: 3 })).toBe(undefined);
      // Without a limit there is one slot, the first.
      on.expect(await managers[1]!.tryAcquire('key')).toBe(undefined);
      const [first, ...rest] = leases;
      on.expect(await first!.renew()).toBe(true);
      on.expect(await first!.release()).toBe(true);
      const next = await managers[1]!.tryAcquire('key', { limit: 3 });
      on.expect(next?.slot).toBe(first!.slot);
      on.expect(next !== undefined && next.token > first!.token).toBe(true);
      on.expect(rest.every(({ held }) => held)).toBe(true);
      for (const lease of [next, ...rest]) on.expect(await lease?.release()).toBe(true);
    },
  ],
  [
    'who waits for a key with a limit has whichever slot is released first',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl });
      const other = new LeaseManager({ store: on.store, ttl, backoff: { initial: 5, max: 20 } });
      const held = [await one.acquire('key', { limit: 2 }), await one.acquire('key', { limit: 2 })];
      const waiting = [other.acquire('key', { limit: 2, timeout: 30_000 })];
      waiting.push(other.acquire('key', { limit: 2, timeout: 30_000 }));
      on.expect(await held[1]!.release()).toBe(true);
      const first = await waiting[0]!;
      on.expect(first.slot).toBe(held[1]!.slot);
      on.expect(first.token > held[1]!.token).toBe(true);
      on.expect(held[0]!.held).toBe(true);
      on.expect(await held[0]!.release()).toBe(true);
      const second = await waiting[1]!;
      on.expect(second.slot).toBe(held[0]!.slot);
      for (const lease of [first, second]) on.expect(await lease.release()).toBe(true);
    },
  ],
  [
    'the slot of a holder that is gone is free after its TTL',
    async (on) => {
      const gone = new LeaseManager({ store: on.store, ttl: on.ttl, renew: false });
      const other = new LeaseManager({ store: on.store, ttl });
      const asked = on.now();
      const before = await gone.acquire('key', { limit: 2 });
      const kept = await other.acquire('key', { limit: 2 });
      const early = await other.tryAcquire('key', { limit: 2 });
      on.requireWithin(on.ttl, asked);
      on.expect(early).toBe(undefined);
      await on.expire();
      const after = await other.tryAcquire('key', { limit: 2 });
      on.expect(after?.slot).toBe(before.slot);
      for (const lease of [after, kept]) on.expect(await lease?.release()).toBe(true);
    },
  ],
  [
    'a named holder has several slots, and those of its last life back',
    async (on) => {
      const before = new LeaseManager({ store: on.store, ttl, holder: 'worker 1', renew: false });
      const slots = [await before.acquire('key', { limit: 3 }), await before.acquire('key', { limit: 3 })];
      on.expect(new Set(slots.map(({ slot }) => slot)).size).toBe(2);
      on.expect(slots.every(({ held }) => held)).toBe(true);
      const after = new LeaseManager({ store: on.store, ttl, holder: 'worker 1' });
      const again = [];
      for (let i = 0; i < 3; i++) again.push(await after.tryAcquire('key', { limit: 3 }));
      on.expect(again.map((lease) => lease?.slot).sort()).toEqual([0, 1, 2]);
      on.expect(await after.tryAcquire('key', { limit: 3 })).toBe(undefined);
      for (const lease of again) on.expect(await lease?.release()).toBe(true);
    },
  ],
  [
    'a lease that is revoked goes to the next waiter, and its holder finds it lost at the next renewal',
    async (on) => {
      const holder = new LeaseManager({ store: on.store, ttl, renew: false });
      const other = new LeaseManager({ store: on.store, ttl, backoff: { initial: 5, max: 20 } });
      on.expect(await revokeLease(on.store, 'key')).toBe(false);
      const lease = await holder.acquire('key');
      const waiting = other.acquire('key', { timeout: 30_000 });
      on.expect(await revokeLease(on.store, 'key')).toBe(true);
      const next = await waiting;
      on.expect(next.token > lease.token).toBe(true);
      on.expect(await lease.renew()).toBe(false);
      on.expect([lease.held, lease.signal.aborted]).toEqual([false, true]);
      on.expect((lease.signal.reason as { code?: unknown }).code).toBe('ERR_LEASE_LOST');
      on.expect(await next.renew()).toBe(true);
      on.expect(await next.release()).toBe(true);
    },
  ],
  [
    'close gives everything back',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl });
      const leases = [await one.acquire('a'), await one.acquire('b')];
      await one.close();
      on.expect(leases.some((lease) => lease.held)).toBe(false);
      on.expect(await on.store.inspect('a')).toBe(undefined);
      on.expect(await on.store.inspect('b')).toBe(undefined);
    },
  ],
];
