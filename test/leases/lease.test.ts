import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { LeaseLostError, LeaseManager, MemoryLeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { block } from '../support/block.js';
import { messagesOf } from '../support/channels.js';
import { runThread } from '../support/threads.js';
import { rejectionOf, thrownBy, turns, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { onFaultyStore, onFixedClock } from './fixed-time.js';

describe('the local deadline', () => {
  it('counts from before the request was sent', async () => {
    const store = new FaultyStore();
    let sent = NaN;
    store.before.tryAcquire = () => {
      sent = performance.now();
      return delay(50);
    };
    const lease = await new LeaseManager({ store, ttl: 1000 }).acquire('key');
    expect(lease.expiresAt).toBeLessThanOrEqual(sent + 1000);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(lease.expiresAt - performance.now());
  });

  it('of a memory lease is not later than its expiry, in threads whose clocks start at different moments', async () => {
    const ttl = 10_000;
    const { handle } = new MemoryLeaseStore();
    for (let i = 0; i < 3; i++) {
      const seen = await runThread<Record<string, number>>('lease-deadline.mjs', { handle, ttl });
      const { sinceAsked, remaining, inStore, remainingThen } = seen as Required<typeof seen>;
      // The clocks are compared to within some microseconds; a thread can be interrupted during a comparison, but not
      // in all 16.
      expect(sinceAsked).toBeGreaterThan(ttl - 5);
      expect(remaining).toBeLessThanOrEqual(ttl);
      expect(remainingThen).toBeLessThanOrEqual(inStore!);
    }
  });

  it.each([false, true])('of a memory lease is earlier than its expiry; renewed: %s', async (renews) => {
    const store = new MemoryLeaseStore();
    const lease = await new LeaseManager({ store, renew: false, ttl: 100 }).acquire('key');
    if (renews) await lease.renew(200);
    await new LeaseManager({ store }).acquire('key', { timeout: 40_000 });
    // More than the error from rounding and from reading two clocks one after the other.
    expect(performance.now() - lease.expiresAt).toBeGreaterThan(1);
  });

  it('ends the lease, that moment excluded', async () => {
    const { clock, manager } = onFixedClock({ renew: false });
    const lease = await manager.acquire('key');
    const { signal } = lease;
    clock.advance(299);
    lease.assertHeld();
    clock.advance(1);
    expect([lease.held, signal.aborted]).toEqual([false, true]);
    const error = thrownBy(() => lease.assertHeld());
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error).toMatchObject({ code: 'ERR_LEASE_LOST', key: 'key', token: lease.token });
    expect(await lease.renew()).toBe(false);
    expect(await lease.release()).toBe(false);
  });

  it('is signalled by an event, without polling', async () => {
    const lease = await new LeaseManager({ ttl: 30, renew: false }).acquire('key');
    const { signal } = lease;
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
  });

  it('is signalled while a renewal hangs', async () => {
    const { clock, store, manager } = onFaultyStore();
    const hanging = gate();
    store.after.renew = hanging.pass;
    const lease = await manager.acquire('key');
    const events: Event[] = [];
    lease.signal.addEventListener('abort', (event) => events.push(event));
    clock.advance(299);
    await turns();
    expect([store.count('renew'), events.length, lease.held]).toEqual([1, 0, true]);
    clock.advance(1);
    expect([store.count('renew'), events.length, lease.held]).toEqual([1, 1, false]);
    expect(await store.inspect('key')).toMatchObject({ remaining: 299 });
    // The lease that the store has extended is given back, since nobody holds it.
    hanging.open();
    await turns();
    expect(store.inner.size).toBe(0);
  });

  it.each(['held', 'assertHeld', 'aborted', 'throwIfAborted', 'reason'])(
    'is visible to the first read after a blocked event loop: %s',
    async (look) => {
      const lease = await new LeaseManager({ ttl: 60 }).acquire('key');
      const { signal } = lease;
      block(120);
      if (look === 'held') expect(lease.held).toBe(false);
      if (look === 'aborted') expect(signal.aborted).toBe(true);
      if (look === 'reason') expect(signal.reason).toBeInstanceOf(LeaseLostError);
      if (look === 'assertHeld') expect(thrownBy(() => lease.assertHeld())).toBeInstanceOf(LeaseLostError);
      if (look === 'throwIfAborted') {
        expect(thrownBy(() => signal.throwIfAborted())).toBeInstanceOf(LeaseLostError);
      }
      expect(await lease.renew()).toBe(false);
    },
  );

  it('is known before any other overdue timer can run', async () => {
    const lease = await new LeaseManager({ ttl: 60 }).acquire('key');
    const { signal } = lease;
    const seen: boolean[] = [];
    setTimeout(() => seen.push(signal.aborted), 0);
    setTimeout(() => seen.push(!lease.held), 1);
    setImmediate(() => seen.push(!lease.held));
    block(120);
    await delay(5);
    expect(seen).toEqual([true, true, true]);
  });
});

describe('release', () => {
  it('is idempotent, and rejects only if the store fails', async () => {
    const store = new FaultyStore();
    const lease = await new LeaseManager({ store }).acquire('key');
    store.before.release = failing;
    expect(await rejectionOf(lease.release())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(lease.held).toBe(false);
    delete store.before.release;
    expect(await Promise.all([lease.release(), lease.release()])).toEqual([true, false]);
  });

  it('does not abort the signal', async () => {
    const { clock, manager } = onFixedClock();
    const lease = await manager.acquire('key');
    const { signal } = lease;
    await lease.release();
    clock.advance(1000);
    expect([signal.aborted, lease.held, lease.signal.aborted]).toEqual([false, false, false]);
    expect(thrownBy(() => lease.assertHeld())).toMatchObject({ code: 'ERR_LEASE_LOST' });
  });

  it('of a lost lease leaves the signal aborted, even if the signal is first read then', async () => {
    for (const how of ['noticed', 'asked', 'shared']) {
      const { clock, manager } = onFixedClock({ renew: false, reentrant: how === 'shared' });
      const lease = await manager.acquire('key');
      const early = how === 'shared' ? await manager.acquire('key') : undefined;
      await early?.release();
      clock.advance(300);
      if (how === 'asked') expect(lease.held).toBe(false);
      await lease.release();
      const { signal } = lease;
      expect([how, signal.aborted, signal.reason]).toMatchObject([how, true, { code: 'ERR_LEASE_LOST' }]);
      // A lease that was released while it was held is not lost later.
      if (early) expect(early.signal.aborted).toBe(false);
    }
  });

  it('reads the clock if somebody has the signal, which is aborted if the lease had already expired', async () => {
    const lease = await new LeaseManager({ ttl: 60, renew: false }).acquire('key');
    const { signal } = lease;
    block(120);
    await lease.release();
    expect(signal.aborted).toBe(true);
  });

  it.each(['of the memory store', 'of another store', 'that is shared', 'with a named holder'])(
    'of a lease %s that had expired unnoticed leaves the signal aborted',
    async (kind) => {
      const store = kind === 'of another store' ? new FaultyStore() : new MemoryLeaseStore();
      const options = kind === 'with a named holder' ? { holder: 'worker' } : {};
      const shared = kind === 'that is shared';
      const manager = new LeaseManager({ store, ttl: 60, renew: false, reentrant: shared, ...options });
      const leases = [await manager.acquire('key')];
      if (shared) leases.push(await manager.acquire('key'));
      block(120);
      for (const lease of leases) {
        const released = lease.release();
        const { aborted, reason } = lease.signal as { aborted: boolean; reason: unknown };
        expect([aborted, reason]).toMatchObject([true, { code: 'ERR_LEASE_LOST' }]);
        await released;
      }
    },
  );

  it('happens at the end of a block', async () => {
    const manager = new LeaseManager();
    const lease = await manager.acquire('key');
    await lease[Symbol.asyncDispose]();
    expect(lease.held).toBe(false);
    expect(manager.store).toHaveProperty('size', 0);
  });
});

it('the events of leases are published', async () => {
  const messages: [string, unknown][] = [];
  for (const name of ['acquired', 'renewed', 'lost', 'released']) {
    const listener = (message: unknown): void => void messages.push([name, message]);
    subscribe(`stripelock:lease:${name}`, listener);
    onTestFinished(() => void unsubscribe(`stripelock:lease:${name}`, listener));
  }
  const { clock, manager } = onFixedClock({ renew: false });
  const released = await manager.acquire('a');
  await released.renew(500);
  clock.advance(10);
  await released.release();
  const lost = await manager.acquire('b');
  clock.advance(300);
  const of = ({ key, token, holder }: typeof lost): object => ({ key, token, holder, threadId: 0 });
  const waited: unknown = expect.any(Number);
  expect(messages).toMatchObject([
    ['acquired', { ...of(released), threadId: expect.any(Number) as unknown, ttl: 300, waited }],
    ['renewed', { key: 'a', token: released.token, ttl: 500 }],
    ['released', { key: 'a', token: released.token, held: 10 }],
    ['acquired', { key: 'b', token: lost.token, holder: lost.holder }],
    ['lost', { key: 'b', token: lost.token, reason: 'it expired' }],
  ]);
});

describe('a release during a release of the same lease', () => {
  it('does not free a key that another lease uses, and waits for the first release', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, reentrant: true, renew: false });
    const lease = await manager.acquire(['a', 'b']);
    const other = await manager.acquire('b');
    const again: Promise<boolean>[] = [];
    const listener = (): void => void again.push(lease.release());
    subscribe('stripelock:lease:released', listener);
    onTestFinished(() => void unsubscribe('stripelock:lease:released', listener));
    const answer = store.delayAnswer('release');
    const releasing = lease.release();
    const nested = watch(Promise.all(again));
    await turns();
    expect(nested.state).toBe('pending');
    answer.open();
    expect([await releasing, await nested.promise]).toEqual([false, [false]]);
    expect(await store.inspect('a')).toBeUndefined();
    expect(other.held).toBe(true);
    expect(await store.inspect('b')).toMatchObject({ token: other.token });
    expect(await other.release()).toBe(true);
  });

  it('is possible after one that a clock made throw', async () => {
    const clock = new FixedClock();
    const manager = new LeaseManager({ clock, renew: false });
    const lease = await manager.acquire('key');
    expect(lease.signal.aborted).toBe(false);
    const failed = vi.spyOn(clock, 'now').mockImplementationOnce(() => {
      throw new Error('no time');
    });
    onTestFinished(() => failed.mockRestore());
    expect(await rejectionOf(lease.release())).toMatchObject({ message: 'no time' });
    expect(await lease.release()).toBe(true);
    expect(manager.store).toHaveProperty('size', 0);
  });
});

it('the event of a grant has the whole wait, not only the last attempt', async () => {
  const store = new MemoryLeaseStore();
  const [one, other] = [new LeaseManager({ store }), new LeaseManager({ store })];
  const held = await one.acquire('key');
  const grants = messagesOf<{ waited: number }>('stripelock:lease:acquired');
  const waiting = other.acquire('key', { timeout: Infinity });
  const asked = performance.now();
  await delay(20);
  const waited = performance.now() - asked;
  await held.release();
  await (await waiting).release();
  expect(grants).toMatchObject([{ waited: expect.any(Number) as number }]);
  expect(grants[0]!.waited).toBeGreaterThanOrEqual(waited);
});
