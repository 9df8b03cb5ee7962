import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type SeveralKeysLeaseStore, type SharedGrant } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';

describe('a grant without a recipient', () => {
  it('gives back a grant that has expired when it arrives', async () => {
    const store = new FaultyStore();
    store.after.tryAcquire = () => delay(60);
    const error = await rejectionOf(new LeaseManager({ store, ttl: 50 }).tryAcquire('key', { renew: false }));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(store.asked).toEqual(['tryAcquire', 'release']);
  });
  it.each(['timeout', 'abort', 'close'])('gives back a late grant after its %s', async (end) => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store });
    const abort = new AbortController();
    const waiting = watch(
      manager.acquire('key', { timeout: end === 'timeout' ? 10 : Infinity, signal: abort.signal }),
    );
    if (end === 'abort') abort.abort();
    const closed = end === 'close' ? manager.close() : undefined;
    await until(() => waiting.state === 'rejected', 'the acquisition ends');
    expect(await store.inspect('key')).toBeDefined();
    late.open();
    await closed;
    await until(() => store.inner.size === 0, 'the grant is given back');
  });

  it('gives back a possible grant of a failed last attempt, retrying until the store answers', async () => {
    const store = new FaultyStore();
    store.after.tryAcquire = failing;
    let failures = 3;
    store.before.release = () => {
      if (failures-- > 0) failing();
    };
    const manager = new LeaseManager({ store, backoff: { initial: 1, max: 2 } });
    const error = await rejectionOf(manager.acquire('key', { timeout: 30 }));
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', cause: { code: 'ERR_LEASE_STORE' } });
    await until(() => store.inner.size === 0, 'the grant is given back');
    expect(failures).toBe(-1);
  });

  it('does not give back, after a failed attempt, what its named holder has', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, holder: 'worker' });
    const held = await manager.acquire('key');
    store.after.tryAcquire = failing;
    await rejectionOf(manager.tryAcquire('key'));
    await rejectionOf(manager.acquire('key', { timeout: 20 }));
    await delay(20);
    expect(store.count('release')).toBe(0);
    expect([held.held, (await store.inspect('key'))?.owner]).toEqual([true, 'worker']);
    await rejectionOf(manager.tryAcquire('other'));
    await until(() => store.inner.size === 1, 'what nobody holds is given back');
  });

  it('does not release its new lease on a late reply to an abandoned attempt', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store, holder: 'worker' });
    await rejectionOf(manager.acquire('key', { timeout: 10 }));
    const second = manager.acquire('key', { timeout: 20_000 });
    await delay(10);
    late.open();
    const lease = await second;
    await delay(20);
    expect(await store.inspect('key')).toMatchObject({ owner: 'worker', token: lease.token });
  });

  it('makes the next attempt use another reader, which a late release cannot remove', async () => {
    const clock = new FixedClock(5000);
    const readers: string[] = [];
    class LateOnce extends MemoryLeaseStore {
      override async tryAcquireShared(
        key: string,
        reader: string,
        ttl: number,
      ): Promise<SharedGrant | undefined> {
        const grant = await super.tryAcquireShared(key, reader, ttl);
        if (readers.push(reader) === 1) clock.advance(ttl);
        return grant;
      }
    }
    const manager = new LeaseManager({ store: new LateOnce({ clock }), clock, backoff: { initial: 1 } });
    const lease = await manager.acquire('key', { mode: 'shared', timeout: Infinity });
    expect(new Set(readers).size).toBe(2);
    expect(await lease.release()).toBe(true);
  });

  it.each([
    { keys: ['a'], answer: 5, message: 'its token is a number, not a bigint' },
    { keys: ['a', 'b'], answer: [1n], message: 'it gave no list of bigints' },
    { keys: ['a', 'b'], answer: [1n, 5], message: 'its token is a number, not a bigint' },
    { keys: ['a', 'b'], answer: 7, message: '7 is not the place of a key' },
  ])('may lie behind a malformed answer, so the keys are released: $message', async (row) => {
    const released = new Set<string>();
    const answers = (): Promise<never> => Promise.resolve(row.answer as never);
    const store: SeveralKeysLeaseStore = {
      tryAcquire: answers,
      tryAcquireAll: answers,
      renew: () => Promise.resolve(false),
      renewAll: () => Promise.resolve([false, false]),
      release: (key) => Promise.resolve(!!released.add(key)),
      releaseAll: (keys) => Promise.resolve(keys.map((key) => !!released.add(key))),
      inspect: () => Promise.resolve(undefined),
    };
    const error = await rejectionOf(new LeaseManager({ store }).tryAcquire(row.keys));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { message: row.message } });
    await until(() => released.size === row.keys.length, 'the keys are released');
  });
});

describe('a single attempt', () => {
  const calls = {
    'acquire with timeout 0': (manager: LeaseManager, signal: AbortSignal) =>
      manager.acquire('key', { timeout: 0, signal }),
    'withLease with timeout 0': (manager: LeaseManager, signal: AbortSignal, fn: () => void) =>
      manager.withLease('key', { timeout: 0, signal }, fn),
    'withLease with ifAvailable': (manager: LeaseManager, signal: AbortSignal, fn: () => void) =>
      manager.withLease('key', { ifAvailable: true, signal }, fn),
  };
  type Name = keyof typeof calls;
  const names = Object.keys(calls) as Name[];

  it.each(names)(
    'that is aborted on the wire rejects at once, runs nothing, and gives its grant back: %s',
    async (name) => {
      const store = new FaultyStore();
      const late = gate();
      store.after.tryAcquire = late.pass;
      const abort = new AbortController();
      const reason = new Error('enough');
      let ran = false;
      const asked = calls[name](new LeaseManager({ store }), abort.signal, () => void (ran = true));
      abort.abort(reason);
      expect(await rejectionOf(asked)).toBe(reason);
      expect(getEventListeners(abort.signal, 'abort')).toHaveLength(0);
      late.open();
      await until(() => store.count('release') === 1, 'the grant is given back');
      await turns();
      expect([ran, store.inner.size]).toEqual([false, 0]);
    },
  );

  it.each(names)('leaves no listener on its signal after the answer: %s', async (name) => {
    const store = new FaultyStore();
    const { signal } = new AbortController();
    const manager = new LeaseManager({ store });
    await calls[name](manager, signal, () => undefined);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await manager.close();
    await store.inner.tryAcquire('key', 'a', 60_000);
    await rejectionOf(calls['acquire with timeout 0'](new LeaseManager({ store }), signal));
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it.each([{ ifAvailable: true }, { timeout: 0 }, {}])(
    'or an immediate grant that is aborted before the function can run does not run it: %o',
    async (options) => {
      const store = new MemoryLeaseStore();
      const manager = new LeaseManager({ store });
      const abort = new AbortController();
      const reason = new Error('enough');
      let ran = false;
      const run = (): void => void (ran = true);
      const asked = manager.withLease('key', { ...options, signal: abort.signal }, run);
      abort.abort(reason);
      expect(await rejectionOf(asked)).toBe(reason);
      await until(() => store.size === 0, 'the grant is given back');
      expect(ran).toBe(false);
    },
  );

  it('says that its manager was closed, if that is why it fails', async () => {
    const store = new FaultyStore();
    const late = gate();
    store.after.tryAcquire = late.pass;
    const manager = new LeaseManager({ store });
    const asked = rejectionOf(manager.acquire('key', { timeout: 0 }));
    const closed = manager.close();
    late.open();
    await closed;
    expect(await asked).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
  });
});
