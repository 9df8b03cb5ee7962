import type { LeaveDetails, SharedLeaseStore } from '../lease/contract/shared.js';
import { LeaseManager } from '../lease/manager.js';
import { revokeLease } from '../lease/revoke.js';
import type { Scene, Sentence } from './framework.js';
import { sharingSentence } from './shared.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

/** A manager whose waiters poll often. */
function managerOn(on: Scene): LeaseManager {
  return new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
}

async function expectFree(on: Scene, key = 'key'): Promise<void> {
  on.expect(await on.store.inspect(key)).toBe(undefined);
}

/** The rules that a manager depends on when it acquires leases in shared mode. */
export const sharedManaged: readonly Sentence[] = [
  sharingSentence(
    'readers of two managers hold a key together, and a writer that waits has it after them',
    async (on) => {
      const one = new LeaseManager({ store: on.store, ttl: LONG });
      const other = new LeaseManager({ store: on.store, ttl: LONG, backoff: { initial: 5, max: 20 } });
      const readers = [
        await one.acquire('key', { mode: 'shared' }),
        await other.acquire('key', { mode: 'shared' }),
        await one.acquire('key', { mode: 'shared' }),
      ];
      on.expect(readers.map(({ mode, token }) => [mode, token])).toEqual(
        readers.map(() => ['shared', readers[0]!.token]),
      );
      const waiting = other.acquire('key', { timeout: 30_000 });
      on.expect(await readers[0]!.renew()).toBe(true);
      for (const reader of readers) on.expect(await reader.release()).toBe(true);
      const writer = await waiting;
      on.expect([writer.mode, writer.token > readers[0]!.token]).toEqual(['exclusive', true]);
      on.expect(await one.tryAcquire('key', { mode: 'shared' })).toBe(undefined);
      const next = one.acquire('key', { mode: 'shared', timeout: 30_000 });
      on.expect(await writer.release()).toBe(true);
      const reader = await next;
      on.expect(reader.token > writer.token).toBe(true);
      on.expect(await reader.release()).toBe(true);
      await expectFree(on);
    },
  ),
  sharingSentence('a writer has its turn although readers hold the key all the time', async (on) => {
    const [writers, readers] = [managerOn(on), managerOn(on)];
    let reader = await readers.acquire('key', { mode: 'shared' });
    let isGranted = false;
    const waiting = writers.acquire('key', { timeout: 30_000 }).finally(() => (isGranted = true));
    // Each reader keeps the key until the next one has it, or is put off.
    while (!isGranted) {
      const next = await readers.tryAcquire('key', { mode: 'shared' });
      await reader.release();
      if (next === undefined) break;
      reader = next;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const writer = await waiting;
    on.expect(writer.token > reader.token).toBe(true);
    on.expect(await writer.release()).toBe(true);
  }),
  sharingSentence('a shared lease that is revoked is lost at its next renewal', async (on) => {
    const manager = new LeaseManager({ store: on.store, ttl: LONG, renew: false });
    const leases = [
      await manager.acquire('key', { mode: 'shared' }),
      await manager.acquire('key', { mode: 'shared' }),
    ];
    on.expect(await revokeLease(on.store, 'key')).toBe(true);
    const writer = await manager.tryAcquire('key');
    on.expect(writer !== undefined && writer.token > leases[0]!.token).toBe(true);
    for (const lease of leases) {
      on.expect(await lease.renew()).toBe(false);
      on.expect((lease.signal.reason as { code?: unknown }).code).toBe('ERR_LEASE_LOST');
    }
    on.expect(await writer?.renew()).toBe(true);
    on.expect(await writer?.release()).toBe(true);
  }),
  sharingSentence('several keys are shared together, all of them or none', async (on) => {
    const manager = new LeaseManager({ store: on.store, ttl: LONG });
    const both = await manager.acquire(['b', 'a'], { mode: 'shared' });
    on.expect([both.keys, both.mode]).toEqual([['a', 'b'], 'shared']);
    const writer = await manager.acquire('c');
    on.expect(await manager.tryAcquire(['a', 'c'], { mode: 'shared' })).toBe(undefined);
    on.expect(await both.release()).toBe(true);
    for (const key of ['a', 'b']) await expectFree(on, key);
    on.expect(await writer.release()).toBe(true);
  }),
  sharingSentence('the details of a release never say the opposite of what it did', async (on) => {
    const store = on.store as SharedLeaseStore;
    const freed: (boolean | undefined)[] = [];
    for (const reader of ['r1', 'r2']) await store.tryAcquireShared('key', reader, LONG);
    for (const reader of ['r1', 'r2']) {
      const details: LeaveDetails = {};
      on.expect(await store.releaseShared('key', reader, details)).toBe(true);
      freed.push(details.freed);
    }
    on.expect([freed[0] === true, freed[1] === false]).toEqual([false, false]);
  }),
];
