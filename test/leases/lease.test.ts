import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseLostError, LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { runThread } from '../support/threads.js';
import { rejectionOf, thrownBy, turns, until } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';

/** Blocks the event loop, as a long computation does. */
function block(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function onFixedClock(options: object = {}): { clock: FixedClock; manager: LeaseManager } {
  const clock = new FixedClock(5000);
  const store = new MemoryLeaseStore({ clock });
  return { clock, manager: new LeaseManager({ store, clock, ttl: 300, ...options }) };
}

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

  it('of a memory lease is not later than its expiry, in threads that count time from different moments', async () => {
    const ttl = 10_000;
    const { handle } = new MemoryLeaseStore();
    for (let i = 0; i < 3; i++) {
      const seen = await runThread<Record<string, number>>('lease-deadline.mjs', { handle, ttl });
      const { sinceAsked, remaining, inStore, remainingThen } = seen as Required<typeof seen>;
      // The clocks are compared to within some microseconds; a thread can be interrupted there, but not 16 times.
      expect(sinceAsked).toBeGreaterThan(ttl - 5);
      expect(remaining).toBeLessThanOrEqual(ttl);
      expect(remainingThen).toBeLessThanOrEqual(inStore!);
    }
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

  it('is signalled by an event without anybody asking', async () => {
    const lease = await new LeaseManager({ ttl: 30, renew: false }).acquire('key');
    const { signal } = lease;
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
  });

  it('is signalled while a renewal hangs', async () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const hanging = gate();
    store.after.renew = hanging.pass;
    const lease = await new LeaseManager({ store, clock, ttl: 300 }).acquire('key');
    const events: Event[] = [];
    lease.signal.addEventListener('abort', (event) => events.push(event));
    clock.advance(299);
    await turns();
    expect([store.count('renew'), events.length, lease.held]).toEqual([1, 0, true]);
    clock.advance(1);
    expect([store.count('renew'), events.length, lease.held]).toEqual([1, 1, false]);
    expect(await store.inspect('key')).toMatchObject({ remaining: 299 });
    // What the store has extended is given back, since nobody holds it.
    hanging.open();
    await turns();
    expect(store.inner.size).toBe(0);
  });

  it.each(['held', 'assertHeld', 'aborted', 'throwIfAborted', 'reason'])(
    'is known to the first look after a blocked event loop: %s',
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

  it('is known before anything else that was due meanwhile can run', async () => {
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

describe('renewal', () => {
  it('keeps a short lease alive for 100 TTLs', async () => {
    const store = new MemoryLeaseStore();
    const lease = await new LeaseManager({ store, ttl: 60 }).acquire('key');
    let stalled = 0;
    for (let last = performance.now(), end = last + 6000; last < end;) {
      await delay(5);
      // On a machine too busy to run a timer within two thirds of a TTL it may be lost, and rightly so.
      stalled = Math.max(stalled, performance.now() - last);
      last = performance.now();
    }
    if (stalled < 30) expect(lease.held).toBe(true);
    expect(await store.inspect('key')).toMatchObject(lease.held ? { token: lease.token } : {});
  }, 20_000);

  it('keeps one alive for 100 TTLs whatever the timers do, if it is let run every sixth of a TTL', async () => {
    const { clock, manager } = onFixedClock();
    const lease = await manager.acquire('key');
    for (let i = 0; i < 600; i++) {
      clock.advance(50);
      await turns();
      expect(lease.held).toBe(true);
    }
    expect(await manager.store.inspect('key')).toMatchObject({ token: lease.token });
  });

  it('beats every third of the TTL, or as told', async () => {
    for (const [renew, first] of [
      [true, 100],
      [{ every: 40 }, 40],
    ] as const) {
      const { clock, manager } = onFixedClock({ renew });
      const lease = await manager.acquire('key');
      const { expiresAt } = lease;
      clock.advance(first - 1);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt);
      clock.advance(1);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt + first);
      clock.advance(first);
      await delay(0);
      expect(lease.expiresAt).toBe(expiresAt + 2 * first);
    }
  });

  it('stops after maxHold, so that a wedged holder loses the lease', async () => {
    const { clock, manager } = onFixedClock({ maxHold: 250 });
    const lease = await manager.acquire('key');
    for (let i = 0; i < 5; i++) {
      clock.advance(100);
      await delay(0);
    }
    expect([lease.held, lease.expiresAt]).toEqual([false, 5000 + 200 + 300]);
  });

  it('survives failures of the store that end before the deadline', async () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    let failures = 2;
    store.before.renew = () => {
      if (failures-- > 0) failing();
    };
    const lease = await new LeaseManager({ store, clock, ttl: 300, backoff: { initial: 5 } }).acquire('key');
    for (const [milliseconds, renewals] of [
      [100, 1],
      // It failed: once more after 5, and after 10.
      [5, 2],
      [9, 2],
      [1, 3],
      // And then every 100 again.
      [99, 3],
      [1, 4],
    ] as const) {
      clock.advance(milliseconds);
      await turns();
      expect([lease.held, store.count('renew')]).toEqual([true, renewals]);
    }
    expect(lease.expiresAt).toBe(clock.now() + 300);
  });

  it('is tried again until the deadline, so that an outage that ends before costs nothing', async () => {
    for (const [from, to] of [
      [250, 700],
      [290, 880],
      [0, 895],
    ] as const) {
      const clock = new FixedClock();
      const store = new FaultyStore(clock);
      const lease = await new LeaseManager({ store, clock, ttl: 900 }).acquire('key');
      store.before.renew = () => {
        if (clock.now() >= from && clock.now() < to) failing();
      };
      for (let i = 0; i < 1500; i++) {
        clock.advance(1);
        await turns(1);
      }
      expect([from, to, lease.held]).toEqual([from, to, true]);
      // Not at every moment, either: by the backoff, and then in halves of what is left.
      expect(store.count('renew')).toBeLessThan(25);
    }
  });

  it('is tried again also where the backoff is longer than the time that is left', async () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const backoff = { initial: 5000, max: 5000 };
    const lease = await new LeaseManager({ store, clock, ttl: 300, backoff }).acquire('key');
    store.before.renew = () => {
      if (clock.now() < 280) failing();
    };
    for (let i = 0; i < 400; i++) {
      clock.advance(1);
      await turns(1);
    }
    expect(lease.held).toBe(true);
  });

  it('tells at once when the store says that somebody else has it', async () => {
    const store = new MemoryLeaseStore();
    const lease = await new LeaseManager({ store, ttl: 30_000, renew: { every: 10 } }).acquire('key');
    await store.release('key', lease.holder);
    await store.tryAcquire('key', 'thief', 30_000);
    const { signal } = lease;
    await until(() => signal.aborted, 'the loss is signalled');
    expect(lease.expiresAt).toBeGreaterThan(performance.now());
    expect(await lease.release()).toBe(false);
    expect(await store.inspect('key')).toMatchObject({ owner: 'thief' });
  });

  it('by hand extends for as long as asked, and the heartbeat does not cut it short', async () => {
    const { clock, manager } = onFixedClock();
    const lease = await manager.acquire('key');
    expect(await lease.renew(10_000)).toBe(true);
    expect(lease.expiresAt).toBe(15_000);
    clock.advance(9700);
    await delay(0);
    expect(lease.expiresAt).toBe(15_000);
    clock.advance(100);
    await delay(0);
    expect(lease.expiresAt).toBe(15_100);
    expect(await rejectionOf(lease.renew(0))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  });

  it('by hand rejects when the store fails, and the lease is held on', async () => {
    const store = new FaultyStore();
    const lease = await new LeaseManager({ store }).acquire('key');
    store.before.renew = failing;
    expect(await rejectionOf(lease.renew())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(lease.held).toBe(true);
  });

  it('by hand alone is not repeated by itself when it fails', async () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const manager = new LeaseManager({
      store,
      clock,
      ttl: 60,
      renew: false,
      backoff: { initial: 1, max: 2 },
    });
    const lease = await manager.acquire('key');
    store.before.renew = failing;
    expect(await rejectionOf(lease.renew())).toMatchObject({ code: 'ERR_LEASE_STORE' });
    for (let i = 0; i < 59; i++) {
      clock.advance(1);
      await turns(1);
    }
    expect([lease.held, store.count('renew')]).toEqual([true, 1]);
    clock.advance(1);
    expect(lease.held).toBe(false);
  });

  it('never outlives a release, however late its reply', async () => {
    const store = new FaultyStore();
    const slow = gate();
    store.before.renew = slow.pass;
    const lease = await new LeaseManager({ store, ttl: 300, renew: { every: 5 } }).acquire('key');
    await until(() => store.count('renew') === 1, 'a renewal is under way');
    expect(await lease.release()).toBe(true);
    slow.open();
    await delay(50);
    expect(store.count('renew')).toBe(1);
    expect(store.inner.size).toBe(0);
  });

  it('of many leases that are due at once lets the event loop turn in between', async () => {
    const inner = new MemoryLeaseStore();
    let renewals = 0;
    // Each takes half a millisecond, as it may on a slow machine: all in one go would take a second.
    const store: LeaseStore = {
      tryAcquire: (...of) => inner.tryAcquire(...of),
      renew: (...of) => {
        renewals++;
        for (const end = performance.now() + 0.5; performance.now() < end;);
        return inner.renew(...of);
      },
      release: (...of) => inner.release(...of),
      inspect: (key) => inner.inspect(key),
    };
    const manager = new LeaseManager({ store, ttl: 600_000, renew: { every: 100 } });
    const keys = Array.from({ length: 2000 }, (_, i) => `key ${i}`);
    await Promise.all(keys.map((key) => manager.acquire(key)));
    block(150);
    let most = 0;
    for (let before = renewals; renewals < 2000; before = renewals) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, renewals - before);
    }
    // Twenty or so in each turn.
    expect(most).toBeLessThan(200);
    await manager.close();
  });

  it('of ten thousand leases takes one timer', async () => {
    const manager = new LeaseManager({ ttl: 60_000, renew: { every: 300 } });
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    const keys = Array.from({ length: 10_000 }, (_, i) => `key ${i}`);
    const leases = await Promise.all(keys.map((key) => manager.acquire(key)));
    expect(timers() - before).toBeLessThanOrEqual(1);
    const first = leases.map(({ expiresAt }) => expiresAt);
    await until(() => leases.every(({ expiresAt }, i) => expiresAt > first[i]!), 'all are renewed');
    expect(timers() - before).toBeLessThanOrEqual(1);
    await manager.close();
  });
});

describe('release', () => {
  it('is idempotent, and rejects only where the store fails', async () => {
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

  it('of what was lost before leaves the signal aborted, also where it is first read then', async () => {
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
      // What was released while it was held is not lost later.
      if (early) expect(early.signal.aborted).toBe(false);
    }
  });

  it('looks at the clock where somebody has the signal: what was over before it is aborted', async () => {
    const lease = await new LeaseManager({ ttl: 60, renew: false }).acquire('key');
    const { signal } = lease;
    block(120);
    await lease.release();
    expect(signal.aborted).toBe(true);
  });

  it.each(['of the memory store', 'of another store', 'that is shared', 'with a named holder'])(
    'of a lease %s that was over before, which nobody had noticed, leaves the signal aborted',
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

  it('comes with the end of a block', async () => {
    const manager = new LeaseManager();
    const lease = await manager.acquire('key');
    await lease[Symbol.asyncDispose]();
    expect(lease.held).toBe(false);
    expect(manager.store).toHaveProperty('size', 0);
  });
});

it('what happens to leases is published', async () => {
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
    ['lost', { key: 'b', token: lost.token, reason: expect.stringContaining('time') as unknown }],
  ]);
});
