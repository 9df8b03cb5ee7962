import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  LeaseManager,
  MemoryLeaseStore,
  type AbandonmentLeaseStore,
  type GrantDetails,
  type WarningLeaseManagerOptions,
} from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';

// `lease.abandoned` of managers. The contract of stores tests what each store reports.

/** Milliseconds: by a clock that stands still. */
const TTL = 300;

/** A store that can fail, and reports abandonment. */
class ReportingStore extends FaultyStore implements AbandonmentLeaseStore {
  override async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
    details?: GrantDetails,
  ): Promise<bigint | undefined> {
    this.asked.push('tryAcquire');
    await this.before.tryAcquire?.();
    const token = await this.inner.tryAcquire(key, owner, ttl, info, details);
    await this.after.tryAcquire?.();
    return token;
  }

  takeBack(key: string, owner: string, token: bigint, wasUsed: boolean): Promise<boolean> {
    this.asked.push('takeBack');
    return this.inner.takeBack(key, owner, token, wasUsed);
  }
}

interface Scene {
  readonly clock: FixedClock;
  readonly store: ReportingStore;
  readonly manager: LeaseManager;
  /** What the next holder of the key sees. It releases the key. */
  readonly next: (key?: string) => Promise<boolean | undefined>;
}

/** `abandoned`: the keys that a holder has left without a release. */
async function scene(abandoned: readonly string[], options: WarningLeaseManagerOptions = {}): Promise<Scene> {
  const clock = new FixedClock();
  const store = new ReportingStore(clock);
  for (const key of abandoned) await store.inner.tryAcquire(key, 'gone', TTL);
  clock.advance(TTL);
  const manager = new LeaseManager({ store, clock, ttl: TTL, renew: false, ...options });
  const others = new LeaseManager({ store: store.inner, clock, ttl: TTL, renew: false });
  onTestFinished(() => manager.close());
  const next = async (key = 'key'): Promise<boolean | undefined> => {
    const lease = await others.acquire(key, { timeout: 0 });
    await lease.release();
    return lease.abandoned;
  };
  return { clock, store, manager, next };
}

describe('a lease', () => {
  it('shows that the last one expired without a release, once', async () => {
    const { manager, next } = await scene(['key']);
    const lease = await manager.acquire('key');
    expect(lease.abandoned).toBe(true);
    expect(await lease.release()).toBe(true);
    expect(lease.abandoned).toBe(true);
    expect(await next()).toBe(false);
  });

  it('that expires itself is reported, also if it is released too late', async () => {
    const { clock, manager, next } = await scene([]);
    const lease = await manager.acquire('key');
    expect(lease.abandoned).toBe(false);
    clock.advance(TTL);
    expect(await lease.release()).toBe(false);
    expect(await next()).toBe(true);
  });

  it('of several keys is abandoned if one of them is, whether in one step or one by one', async () => {
    const { clock, manager, store } = await scene(['b']);
    const lease = await manager.acquire(['a', 'b', 'c']);
    expect(lease.abandoned).toBe(true);
    await lease.release();
    const again = await manager.acquire(['a', 'b', 'c']);
    expect(again.abandoned).toBe(false);
    await again.release();
    expect(store.asked).not.toContain('takeBack');
    const none = await new LeaseManager({ store, clock }).acquire([]);
    expect(none.abandoned).toBe(false);
  });

  it('of a slot is about the last holder of that slot', async () => {
    const { manager } = await scene(['key#slot1']);
    const leases = [await manager.acquire('key', { limit: 2 }), await manager.acquire('key', { limit: 2 })];
    expect(leases.map(({ slot, abandoned }) => abandoned === (slot === 1))).toEqual([true, true]);
  });

  it('that is shared shows the same to each', async () => {
    const { manager, next } = await scene(['key'], { reentrant: true });
    const leases = [await manager.acquire('key'), await manager.acquire('key')];
    expect(leases.map(({ abandoned }) => abandoned)).toEqual([true, true]);
    for (const lease of leases) await lease.release();
    expect(await next()).toBe(false);
  });

  it('that a named holder takes again shows the same', async () => {
    const { clock, store, manager } = await scene(['key'], { holder: 'me' });
    expect((await manager.acquire('key')).abandoned).toBe(true);
    const restarted = new LeaseManager({ store, clock, ttl: TTL, holder: 'me', renew: false });
    const again = await restarted.acquire('key');
    expect(again.abandoned).toBe(true);
    clock.advance(TTL);
    expect((await restarted.acquire('key')).abandoned).toBe(true);
  });

  it('of a store that cannot tell has no answer', async () => {
    const manager = new LeaseManager({ store: new FaultyStore() });
    const lease = await manager.acquire('key');
    expect(lease.abandoned).toBeUndefined();
    await lease.release();
    expect((await manager.acquire(['a', 'b'])).abandoned).toBeUndefined();
    await manager.close();
  });

  it('of a store whose subclass does not pass the details has no answer', async () => {
    class Counting extends MemoryLeaseStore {
      override tryAcquire(key: string, owner: string, ttl: number): Promise<bigint | undefined> {
        return super.tryAcquire(key, owner, ttl);
      }
    }
    const manager = new LeaseManager({ store: new Counting() });
    expect((await manager.acquire('key')).abandoned).toBeUndefined();
    await manager.close();
  });

  it('shows that the thread of the last holder has ended', async () => {
    const store = new MemoryLeaseStore();
    const { href } = new URL('../../dist/index.mjs', import.meta.url);
    const code = `
      const { parentPort, workerData } = require('node:worker_threads');
      import(workerData.href).then(async ({ LeaseManager, MemoryLeaseStore }) => {
        const store = MemoryLeaseStore.from(workerData.handle);
        await new LeaseManager({ store, ttl: 50 }).acquire('key');
        parentPort.postMessage('held');
      });`;
    const worker = new Worker(code, { eval: true, workerData: { href, handle: store.handle } });
    await once(worker, 'message');
    await worker.terminate();
    const manager = new LeaseManager({ store });
    const lease = await manager.acquire('key', { timeout: 60_000 });
    expect(lease.abandoned).toBe(true);
    await manager.close();
  });
});

describe.each([
  ['a key in order', false],
  ['an abandoned key', true],
])('of %s', (_name, abandoned) => {
  const keys = abandoned ? ['key'] : [];

  it('a grant whose answer was lost is reported by the next attempt', async () => {
    const { store, manager, next } = await scene(keys, { backoff: { initial: 1, max: 1 } });
    store.after.tryAcquire = () => {
      store.after.tryAcquire = undefined;
      failing();
    };
    const lease = await manager.acquire('key', { timeout: 60_000 });
    expect(store.count('tryAcquire')).toBe(2);
    expect(lease.abandoned).toBe(abandoned);
    await lease.release();
    expect(await next()).toBe(false);
  });

  it('a grant whose answer was lost, and that is given back, changes nothing', async () => {
    const { store, manager, next } = await scene(keys);
    store.after.tryAcquire = failing;
    await rejectionOf(manager.tryAcquire('key'));
    await until(() => store.count('takeBack') === 1, 'the grant is given back');
    expect(await next()).toBe(abandoned);
  });

  it.each(['timeout', 'close', 'expiry'])('a grant that comes after the %s changes nothing', async (end) => {
    const { clock, store, manager, next } = await scene(keys);
    const late = gate();
    store.after.tryAcquire = late.pass;
    const timeout = { timeout: 10, close: Infinity, expiry: 0 }[end]!;
    const waiting = watch(manager.acquire('key', { timeout }));
    await until(() => store.inner.size === 1, 'the store has granted it');
    const closed = end === 'close' ? manager.close() : undefined;
    if (end === 'timeout') await until(() => waiting.state === 'rejected', 'the acquisition ends');
    if (end === 'expiry') {
      // The local clock is late, so the store still has the grant.
      await store.inner.renew('key', (await store.inner.inspect('key'))!.owner, 2 * TTL);
      clock.advance(TTL);
    }
    late.open();
    await until(() => store.count('release') + store.count('takeBack') === 1, 'it is given back');
    await closed;
    await turns();
    expect(store.asked).toContain(abandoned ? 'takeBack' : 'release');
    expect(await next()).toBe(abandoned);
  });

  it('a function that does not run because of its signal changes nothing', async () => {
    const { manager, next } = await scene(keys, { minHold: TTL });
    const abort = new AbortController();
    const asked = manager.withLease('key', { signal: abort.signal }, () => undefined);
    abort.abort(new Error('enough'));
    await rejectionOf(asked);
    await turns();
    expect(await next()).toBe(abandoned);
  });

  it('acquisitions that share the key, and are aborted before they are used, change nothing', async () => {
    // In some of these turns, both have the key, and neither has called its function yet.
    for (let turn = 0; turn < 20; turn++) {
      const { manager, next } = await scene(keys, { reentrant: true });
      const abort = new AbortController();
      let used = false;
      const use = (): void => void (used = true);
      const asked = [1, 2].map(() => manager.withLease('key', { signal: abort.signal }, use));
      for (let i = 0; i < turn; i++) await Promise.resolve();
      abort.abort(new Error('enough'));
      await Promise.allSettled(asked);
      await turns();
      expect([turn, await next()]).toEqual([turn, abandoned && !used]);
    }
  });

  it('an acquisition of several keys that is refused changes nothing', async () => {
    const { store, manager, next } = await scene(keys);
    await store.inner.tryAcquire('other', 'someone', 10 * TTL);
    expect(await manager.tryAcquire(['key', 'other'])).toBeUndefined();
    expect(await next()).toBe(abandoned);
  });

  it('a release is a release, though another acquisition has joined the lease and failed', async () => {
    const { store, manager, next } = await scene(keys, { reentrant: true });
    const lease = await manager.acquire('key');
    const refusal = gate();
    await store.inner.tryAcquire('other', 'someone', 10 * TTL);
    store.before.tryAcquire = refusal.pass;
    const joining = manager.tryAcquire(['key', 'other']);
    await turns();
    // The acquisition that is on its way uses the hold, too.
    expect(await lease.release()).toBe(false);
    refusal.open();
    expect(await joining).toBeUndefined();
    await turns();
    expect(await next()).toBe(false);
  });

  it('the end of `minHold` is a release', async () => {
    const { clock, manager, next } = await scene(keys, { minHold: TTL });
    const lease = await manager.acquire('key');
    await lease.release();
    clock.advance(TTL);
    expect(await next()).toBe(false);
  });

  it('a lease whose renewal was answered too late was abandoned', async () => {
    const { clock, store, manager, next } = await scene(keys);
    const lease = await manager.acquire('key');
    clock.advance(TTL - 1);
    const answer = store.delayAnswer('renew');
    const renewed = lease.renew();
    await turns();
    clock.advance(TTL);
    // The renewal keeps the key taken in the store for a moment less than the TTL: the answer still finds it.
    await store.inner.renew('key', lease.holder, TTL);
    answer.open();
    expect(await renewed).toBe(false);
    expect(store.count('takeBack')).toBe(1);
    expect(await next()).toBe(true);
  });

  it('a renewal that failed does not matter to a release in time', async () => {
    const { store, manager, next } = await scene(keys);
    const lease = await manager.acquire('key');
    store.after.renew = failing;
    await rejectionOf(lease.renew());
    expect(await lease.release()).toBe(true);
    expect(await next()).toBe(false);
  });
});
