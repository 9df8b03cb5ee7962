import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { JavaScriptLeases } from '../../unbundled/engine/javascript/leases.js';
import { runThread } from '../support/threads.js';
import { thrownBy, turns, until } from '../support/waiting.js';

/** A run with ten million shows it better: STRIPELOCK_LEASE_KEYS=10000000. */
const KEYS = Number(process.env['STRIPELOCK_LEASE_KEYS'] ?? 300_000);

describe('MemoryLeaseStore', () => {
  it('keeps only held leases in memory, however many keys were leased before', async () => {
    const clock = new FixedClock();
    const store = new MemoryLeaseStore({ clock });
    let most = 0;
    for (let i = 0; i < KEYS; i++) {
      // A thousand are held at a time.
      await store.tryAcquire(`key ${i}`, 'owner', 1000);
      clock.advance(1);
      if (i % 1000 === 0) most = Math.max(most, store.size);
    }
    expect(most).toBeLessThan(3000);
    const before = store.size;
    await store.tryAcquire('another', 'owner', 1000);
    await store.release('another', 'owner');
    expect(store.size).toBeLessThanOrEqual(before);
  });

  it('starts its tokens at the wall clock, in nanoseconds, and higher for a later table', async () => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const first = await new MemoryLeaseStore().tryAcquire('key', 'a', 1000);
    const second = await new MemoryLeaseStore().tryAcquire('key', 'a', 1000);
    expect(first).toBeGreaterThanOrEqual(before - 1_000_000_000n);
    expect(first).toBeLessThan(before + 60_000_000_000n);
    expect(second).toBeGreaterThan(first!);
  });

  it('names a group of readers after its first reader and its token', async () => {
    const store = new MemoryLeaseStore();
    const grant = await store.tryAcquireShared('key', 'r1', 1000);
    expect(grant!.group).toBe(`stripelock:readers:r1:${grant!.token}`);
    expect((await store.inspect('key'))!.owner).toBe(grant!.group);
  });

  it('keeps the leases of a thread that has ended until they expire', async () => {
    const store = new MemoryLeaseStore();
    const token = await runThread<bigint>('lease-and-end.mjs', { handle: store.handle, ttl: 400 });
    expect(await store.inspect('key')).toMatchObject({ owner: 'ended', token });
    const lease = await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
    expect(lease.token).toBeGreaterThan(token);
  });

  it('keeps the leases of a table that no thread has open any more', async () => {
    const handle = await runThread<object>('lease-and-end.mjs', { ttl: 60_000 });
    expect(await MemoryLeaseStore.from(handle).inspect('key')).toMatchObject({ owner: 'ended' });
  });

  it('distinguishes strings that are not well-formed Unicode', async () => {
    const store = new MemoryLeaseStore();
    const keys = ['\ud800', '\ud801', '\ufffd', '\udc00\ud800', 'x\ud800'];
    for (const key of keys) expect(await store.tryAcquire(key, `owner of ${key}`, 1000)).toBeTypeOf('bigint');
    for (const key of keys) expect((await store.inspect(key))!.owner).toBe(`owner of ${key}`);
  });

  it('is opened only by its handle, and with a clock if it was made with one', () => {
    const type = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;
    const engine = expect.objectContaining({ code: 'ERR_LOCK_ENGINE' }) as Error;
    const store = new MemoryLeaseStore();
    const handle = structuredClone(store.handle) as typeof store.handle & {
      id: [number, number];
      number: number;
    };
    expect(MemoryLeaseStore.from(handle).size).toBe(0);
    for (const wrong of [undefined, null, 5, {}, { kind: 'stripelock/striped-lock' }, { ...handle, id: 5 }]) {
      expect(() => MemoryLeaseStore.from(wrong as object)).toThrow(type);
    }
    expect(() => MemoryLeaseStore.from({ ...handle, number: handle.number + 1e6 } as object)).toThrow(engine);
    expect(() => MemoryLeaseStore.from({ ...handle, id: [1, 2] } as object)).toThrow(engine);
    const clock = new FixedClock();
    expect(() => MemoryLeaseStore.from(handle, { clock })).toThrow(type);
    const fixed = new MemoryLeaseStore({ clock });
    expect(() => MemoryLeaseStore.from(fixed.handle)).toThrow(type);
    expect(MemoryLeaseStore.from(fixed.handle, { clock }).size).toBe(0);
    expect(() => new MemoryLeaseStore({ clock: 5 as never })).toThrow(type);
  });

  it('refuses times that its clock cannot add', async () => {
    const clock = new FixedClock(Number.MAX_SAFE_INTEGER);
    const refused = new MemoryLeaseStore({ clock }).tryAcquire('key', 'a', 1);
    await expect(refused).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  });
});

describe('listeners of a memory store', () => {
  it('are notified when the clock reaches the expiry, and not before, also after a renewal', async () => {
    const clock = new FixedClock();
    const store = new MemoryLeaseStore({ clock });
    await store.tryAcquire('key', 'a', 1000);
    let calls = 0;
    const end = store.onRelease('key', () => calls++);
    clock.advance(999);
    await store.renew('key', 'a', 1000);
    clock.advance(1);
    expect(calls).toBe(0);
    clock.advance(998);
    expect(calls).toBe(0);
    clock.advance(1);
    expect(calls).toBe(1);
    end();
  });

  it('are notified of the expiry of a lease that was granted while they listened', async () => {
    const clock = new FixedClock();
    const store = new MemoryLeaseStore({ clock });
    await store.tryAcquire('key', 'a', 1000);
    let calls = 0;
    const end = store.onRelease('key', () => calls++);
    await store.release('key', 'a');
    await until(() => calls === 1, 'the release is reported');
    await store.tryAcquire('key', 'b', 1000);
    expect(await store.tryAcquire('key', 'c', 1000)).toBeUndefined();
    clock.advance(1000);
    expect(calls).toBe(2);
    end();
  });

  it('are notified if the key was free before they listened', async () => {
    const store = new MemoryLeaseStore();
    let calls = 0;
    const end = store.onRelease('key', () => calls++);
    await until(() => calls === 1, 'they are notified');
    end();
  });

  it('are notified if the key was free before they listened, and if a reader that was put off may join', async () => {
    const clock = new FixedClock();
    const store = new MemoryLeaseStore({ clock });
    await store.tryAcquireShared('key', 'r1', 1000);
    await store.putOffReaders('key', 1000);
    await store.releaseShared('key', 'r1');
    let calls = 0;
    const end = store.onRelease('key', () => calls++);
    expect(await store.tryAcquireShared('key', 'r2', 1000)).toBeUndefined();
    await until(() => calls === 1, 'they are notified');
    clock.advance(1000);
    await until(() => calls === 2, 'they are notified again');
    end();
  });

  it('are all notified, each of them first in turn, until they end', async () => {
    const store = new MemoryLeaseStore({ clock: new FixedClock() });
    const calls: string[] = [];
    const once = async (count: number): Promise<string[]> => {
      await store.tryAcquire('key', 'a', 1000);
      await store.release('key', 'a');
      await until(() => calls.length >= count, 'the listeners are notified');
      await turns();
      return calls.splice(0);
    };
    await store.tryAcquire('key', 'a', 1000);
    const listener = (): number => calls.push('one');
    const ends = [store.onRelease('key', listener), store.onRelease('key', () => calls.push('two'))];
    expect(await once(2)).toEqual(['one', 'two']);
    expect(await once(2)).toEqual(['two', 'one']);
    // A listener of a free key is notified at once.
    await store.tryAcquire('key', 'a', 1000);
    ends.push(store.onRelease('key', listener));
    ends[0]!();
    expect(await once(2)).toEqual(['two', 'one']);
    for (const end of ends) end();
    expect(await once(0)).toEqual([]);
  });

  it('are notified of releases through another store on the same handle', async () => {
    const store = new MemoryLeaseStore();
    await store.tryAcquire('key', 'a', 600_000);
    let isCalled = false;
    onTestFinished(MemoryLeaseStore.from(store.handle).onRelease('key', () => (isCalled = true)));
    await store.release('key', 'a');
    await until(() => isCalled, 'the listener is notified');
  });

  it('must be functions, for keys that can be held', () => {
    const store = new MemoryLeaseStore();
    const code = 'ERR_INVALID_ARG_TYPE';
    expect(thrownBy(() => store.onRelease('key', 5 as never))).toMatchObject({ code });
    expect(thrownBy(() => store.onRelease(5 as never, () => undefined))).toMatchObject({ code });
  });
});

describe('without the addon', () => {
  it('the table of another thread is refused, and this thread’s own can be opened again', () => {
    const leases = new JavaScriptLeases();
    const table = leases.openTable(false);
    expect(leases.openTable(false, table.number)).toBe(table);
    expect(() => leases.openTable(false, table.number + 1)).toThrow('refers to nothing');
    expect(new JavaScriptLeases().id).not.toEqual(leases.id);
  });

  it('a gate admits by the same rules, in bounded memory', () => {
    const gate = new JavaScriptLeases().openGate(2);
    expect([gate.admit('a', 5n), gate.admit('a', 4n), gate.admit('a', 5n)]).toEqual([
      undefined,
      5n,
      undefined,
    ]);
    gate.admit('b', 6n);
    gate.admit('c', 7n);
    expect([gate.size, gate.admit('a', 4n), gate.admit('a', 5n)]).toEqual([2, 5n, undefined]);
  });
});
