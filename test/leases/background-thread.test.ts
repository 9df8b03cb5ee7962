import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  LeaseManager,
  type LeaseFailedMessage,
  type LeaseRenewedMessage,
  type LeaseWarning,
  type WarningLeaseManagerOptions,
} from 'stripelock';
import { block } from '../support/block.js';
import { messagesOf } from '../support/channels.js';
import { rejectionOf, until } from '../support/waiting.js';
import { nextThread, ReopenableStore } from './reopenable-store.js';

/** Milliseconds: the other thread of a busy machine must renew in time. */
const TTL = 900;
/** Milliseconds by which two clocks may differ in what they say of one moment. */
const CLOCKS = 5;

function managerOn(store: ReopenableStore, options: WarningLeaseManagerOptions = {}): LeaseManager {
  const defaults = { ttl: TTL, renew: { background: true }, maxHold: 600_000 };
  const manager = new LeaseManager({ store, ...defaults, ...options });
  onTestFinished(() => manager.close());
  return manager;
}

describe('the thread that renews leases', () => {
  it('does all the renewals, and the event loop none', async () => {
    const store = new ReopenableStore();
    const renewed = messagesOf<LeaseRenewedMessage>('stripelock:lease:renewed');
    const lease = await managerOn(store).acquire('key');
    await until(() => store.answered >= 4, 'it is renewed four times');
    await until(() => renewed.length >= 4, 'this thread has been told');
    expect(renewed[0]).toMatchObject({ key: 'key', token: lease.token, ttl: TTL });
    expect(store.asked).toEqual(['tryAcquire']);
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    // One may have been on its way.
    await delay(TTL / 3);
    const { answered } = store;
    await delay(TTL);
    expect(store.answered).toBe(answered);
  });

  it('is one for all managers and leases, and ends with the last manager', async () => {
    const started: unknown[] = [];
    const listener = (worker: unknown): void => void started.push(worker);
    process.on('worker', listener);
    onTestFinished(() => void process.off('worker', listener));
    const thread = nextThread();
    const [one, other] = [managerOn(new ReopenableStore()), managerOn(new ReopenableStore())];
    await Promise.all([one.acquire('a'), one.acquire('b'), other.acquire('a'), other.acquire('b')]);
    const ended = once(await thread, 'exit');
    await one.close();
    expect(started.length).toBe(1);
    await other.acquire('c');
    expect(started.length).toBe(1);
    await other.close();
    await ended;
    await managerOn(new ReopenableStore()).acquire('key');
    expect(started.length).toBe(2);
  });

  it('is reported at once if it is ended, and the event loop renews its leases', async () => {
    const store = new ReopenableStore();
    const thread = nextThread();
    const failed = messagesOf<LeaseFailedMessage>('stripelock:lease:failed');
    const manager = managerOn(store);
    const lease = await manager.acquire('key');
    const warned = once(process, 'warning');
    await (await thread).terminate();
    const [warning] = (await warned) as [Error & { code: string }];
    expect(warning.code).toBe('STRIPELOCK_RENEWAL_ENDED');
    expect(warning.message).toMatch(/renews its leases: 1$/);
    expect(failed.length).toBe(1);
    expect(failed[0]).toMatchObject({ operation: 'renew', key: 'key', token: lease.token });
    await until(() => store.asked.filter((asked) => asked === 'renew').length >= 3, 'the loop renews it');
    expect(lease.held).toBe(true);
    expect(await lease.renew(2 * TTL)).toBe(true);
    expect(await lease.release()).toBe(true);
    // The next acquisition starts another thread.
    const next = nextThread();
    const again = await manager.acquire('key');
    await next;
    block(3 * TTL);
    expect(again.held).toBe(true);
  });

  it('that fails while the holder is blocked takes the lease with it, and the holder knows', async () => {
    const store = new ReopenableStore();
    const lease = await managerOn(store).acquire('key');
    store.endThread();
    block(3 * TTL);
    expect(lease.held).toBe(false);
    expect(lease.signal.aborted).toBe(true);
    expect(await store.inspect('key')).toBeUndefined();
  });

  it('renews by hand, too, for as long as asked, and never cuts that short', async () => {
    const store = new ReopenableStore();
    const lease = await managerOn(store).acquire('key');
    const before = performance.now();
    expect(await lease.renew(60_000)).toBe(true);
    expect(lease.expiresAt).toBeGreaterThanOrEqual(before + 60_000 - 1);
    const { answered } = store;
    await delay(TTL);
    expect(store.answered).toBe(answered);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(60_000 - 10_000);
    // Not a clock's error, but a shorter lease is renewed at once.
    expect(await lease.renew(TTL / 2)).toBe(true);
    expect(lease.expiresAt).toBeLessThan(performance.now() + TTL);
    await until(() => store.answered >= answered + 2, 'it is renewed for its own ttl');
    block(2 * TTL);
    expect(lease.held).toBe(true);
    expect(store.asked).toEqual(['tryAcquire']);
  });

  it('writes infos, too, so that the holder and the store have one deadline', async () => {
    const store = new ReopenableStore();
    const lease = await managerOn(store).acquire('key');
    expect(await lease.renew(60_000)).toBe(true);
    expect(await lease.setInfo('half done')).toBe(true);
    const { info, remaining } = (await store.inspect('key'))!;
    expect(info).toBe('half done');
    expect(lease.expiresAt).toBeLessThanOrEqual(performance.now() + remaining + CLOCKS);
    expect(store.asked).toEqual(['tryAcquire']);
    // It is still renewed.
    const { answered } = store;
    await until(() => store.answered >= answered + 2, 'it is renewed for its own ttl');
    expect(lease.held).toBe(true);
    expect((await store.inspect('key'))!.info).toBe('half done');
    expect(await lease.setInfo('')).toBe(true);
    expect((await store.inspect('key'))!.info).toBe(undefined);
  });

  it('reports failures to the holder, which loses the lease at its deadline, with the cause', async () => {
    const store = new ReopenableStore();
    const warnings: LeaseWarning[] = [];
    const failed = messagesOf<LeaseFailedMessage>('stripelock:lease:failed');
    const manager = managerOn(store, { warning: { call: (warning) => warnings.push(warning) } });
    const lease = await manager.acquire('key');
    const { signal } = lease;
    store.failing = true;
    const started = performance.now();
    await once(signal, 'abort');
    expect(performance.now() - started).toBeLessThan(TTL + 10_000);
    expect((signal.reason as Error).cause).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect((signal.reason as Error).message).toMatch(/the network is down/);
    expect(failed.length).toBeGreaterThan(1);
    expect(warnings.length).toBe(1);
    expect(warnings[0]).toMatchObject({ key: 'key', token: lease.token });
    expect(warnings[0]!.cause?.message).toMatch(/the network is down/);
  });

  it('keeps renewing after failures that end before the deadline', async () => {
    const store = new ReopenableStore();
    const lease = await managerOn(store, { ttl: 3000, renew: { background: true, every: 300 } }).acquire(
      'key',
    );
    store.failing = true;
    block(1500);
    store.failing = false;
    block(6000);
    expect(lease.held).toBe(true);
  });

  it('notifies the holder at once when the store says that another holder has the lease', async () => {
    const store = new ReopenableStore();
    const renew = { background: true, every: 20 };
    const lease = await managerOn(store, { ttl: 600_000, renew }).acquire('key');
    const { signal } = lease;
    const aborted = once(signal, 'abort');
    await store.inner.release('key', lease.holder);
    await store.inner.tryAcquire('key', 'thief', 60_000);
    await aborted;
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(await lease.release()).toBe(false);
    expect(await store.inspect('key')).toMatchObject({ owner: 'thief' });
  });

  it('has nothing on its way to the store when a lease is released, so that it cannot reach the next one', async () => {
    const store = new ReopenableStore();
    const options = { holder: 'worker 1', ttl: 5000, renew: { background: true, every: 20 } };
    const manager = managerOn(store, options);
    const first = await manager.acquire('key');
    store.late = 400;
    const { answered } = store;
    await until(() => store.answered > answered, 'late renewals have begun');
    const releasing = first.release();
    const second = await manager.acquire('key', { ttl: 60_000, renew: false });
    expect(await releasing).toBe(true);
    await delay(1000);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(30_000);
    // The same for a lease that a new one of the same holder replaces.
    const third = await manager.acquire('key', { ttl: 5000 });
    expect([second.held, third.held]).toEqual([false, true]);
    await delay(200);
    await manager.acquire('key', { ttl: 60_000, renew: false });
    expect(third.held).toBe(false);
    await delay(1000);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(30_000);
  });

  it('cannot shorten what minHold keeps after a release', async () => {
    const store = new ReopenableStore();
    const renew = { background: true, every: 20 };
    const lease = await managerOn(store, { ttl: 5000, renew, minHold: 600_000 }).acquire('key');
    store.late = -1;
    await until(() => store.isRenewing, 'a renewal is on its way');
    const releasing = lease.release();
    await delay(100);
    store.late = 0;
    expect(await releasing).toBe(true);
    await until(() => !store.isRenewing, 'the renewal was answered');
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(300_000);
  });

  it('that cannot open the store makes acquisitions fail before anything is taken', async () => {
    const sources = [
      [new ReopenableStore({}, true), /the password is wrong/],
      [new ReopenableStore({ module: 'no-such-module' }), /no-such-module/],
      [new ReopenableStore({ name: 'notAFunction' }), /exports no function notAFunction/],
    ] as const;
    for (const [store, reason] of sources) {
      const manager = managerOn(store);
      const error = (await rejectionOf(manager.tryAcquire('key'))) as Error;
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(error.message).toMatch(reason);
      const timeout = await rejectionOf(manager.acquire('key', { timeout: 3000 }));
      expect(timeout).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
      expect((timeout as Error).cause).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(store.asked).toEqual([]);
      const usual = await manager.acquire('key', { renew: true });
      expect(usual.held).toBe(true);
    }
  }, 30_000);

  it('renews hundreds of leases while their holder is blocked', async () => {
    const store = new ReopenableStore();
    const manager = managerOn(store, { ttl: 3000 });
    const keys = Array.from({ length: 500 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    block(9000);
    expect(leases.filter(({ held }) => held).length).toBe(500);
    await manager.close();
    expect(store.inner.size).toBe(0);
  }, 30_000);
});
