import { describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { FixedClock } from 'stripelock/testing';
import { block } from '../support/block.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';
import { FaultyStore } from './faulty-store.js';
import { ReopenableStore } from './reopenable-store.js';

const BACKGROUND = { background: true };

describe('the option of renewal in the background', () => {
  it('needs a finite maxHold, and takes nothing without', async () => {
    const store = new MemoryLeaseStore();
    const without = thrownBy(() => new LeaseManager({ store, renew: BACKGROUND }));
    expect(without).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    expect((without as Error).message).toMatch(/^options\.maxHold must be finite where/);
    const manager = new LeaseManager({ store });
    for (const options of [{ renew: BACKGROUND }, { renew: BACKGROUND, maxHold: Infinity }]) {
      expect(await rejectionOf(manager.acquire('key', options))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
      expect(await rejectionOf(manager.tryAcquire('key', options))).toMatchObject({
        code: 'ERR_OUT_OF_RANGE',
      });
    }
    expect(store.size).toBe(0);
    const lease = await manager.acquire('key', { renew: BACKGROUND, maxHold: 1000 });
    expect(await lease.release()).toBe(true);
  });

  it('must be a boolean', async () => {
    for (const background of [1, 'yes', null, {}]) {
      const renew = { background } as unknown as { background: boolean };
      const error = await rejectionOf(new LeaseManager().acquire('key', { renew, maxHold: 1000 }));
      expect(error).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
      expect((error as Error).message).toMatch(/^options\.renew\.background must be a boolean/);
    }
  });

  it('is the default of the manager, which an acquisition can change', async () => {
    const manager = new LeaseManager({ ttl: 1000, renew: BACKGROUND, maxHold: 60_000 });
    const [kept, usual] = [await manager.acquire('kept'), await manager.acquire('usual', { renew: false })];
    block(2000);
    expect([kept.held, usual.held]).toEqual([true, false]);
    expect(await manager.store.inspect('kept')).toMatchObject({ token: kept.token });
    expect(await manager.store.inspect('usual')).toBeUndefined();
    await manager.close();
  });

  it('is refused with a clear error on a store that no other thread can open', async () => {
    const stores: [LeaseStore, object][] = [
      [new FaultyStore(), {}],
      [
        redisLeaseStore({ client: { evalsha: () => undefined, eval: () => undefined, on: () => undefined } }),
        {},
      ],
      // No other thread can read the manager's own clock.
      [new ReopenableStore(), { clock: new FixedClock() }],
      [new MemoryLeaseStore(), { clock: new FixedClock() }],
      [new MemoryLeaseStore({ clock: new FixedClock() }), {}],
      [
        new (class extends MemoryLeaseStore {
          override renew(): Promise<boolean> {
            return Promise.resolve(true);
          }
        })(),
        {},
      ],
    ];
    for (const [store, options] of stores) {
      const make = (): LeaseManager =>
        new LeaseManager({ store, renew: BACKGROUND, maxHold: 1000, ...options });
      const error = thrownBy(make);
      expect(error).toMatchObject({ name: 'LockError', code: 'ERR_LEASE_BACKGROUND' });
      expect((error as Error).message).toMatch(
        /needs a store that another thread can open again.*a separate clock/,
      );
      expect((error as Error).message).toMatch(
        /a store that was created with a path, url, endpoints or clientModule/,
      );
      const manager = new LeaseManager({ store, ...options });
      const rejected = await rejectionOf(manager.acquire('key', { renew: BACKGROUND, maxHold: 1000 }));
      expect(rejected).toMatchObject({ code: 'ERR_LEASE_BACKGROUND' });
    }
  });

  it('is refused if the source of the store is not one', () => {
    for (const source of [null, 1, {}, { module: 'x' }, { module: 1, name: 'x' }, { name: 'x' }]) {
      const store = Object.assign(new FaultyStore(), { source });
      const make = (): LeaseManager => new LeaseManager({ store, renew: BACKGROUND, maxHold: 1000 });
      expect(thrownBy(make)).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    }
  });
});

describe('a Redis store that makes its own client', () => {
  it('refuses bad options', () => {
    const client = { evalsha: () => undefined, eval: () => undefined, on: () => undefined };
    for (const [options, code] of [
      [{ url: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ url: '' }, 'ERR_OUT_OF_RANGE'],
      [{ url: 'localhost:6379' }, 'ERR_OUT_OF_RANGE'],
      [{ url: 'redis://127.0.0.1:1', client }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, clientModule: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, clientModule: '' }, 'ERR_OUT_OF_RANGE'],
      [{}, 'ERR_INVALID_ARG_TYPE'],
    ] as const) {
      expect(thrownBy(() => redisLeaseStore(options as never))).toMatchObject({ code });
    }
  });

  it('shows nothing of a URL that it refuses but its scheme', () => {
    const error = thrownBy(() => redisLeaseStore({ url: 'http://user:secret@host' })) as Error;
    expect(error.message).toMatch(/received "http"$/);
  });

  it('names its module by a URL, also if it is given as a path', () => {
    const client = { evalsha: () => undefined, eval: () => undefined, on: () => undefined };
    const modules = [new URL('file:///clients/redis.mjs'), 'file:///clients/redis.mjs', '/clients/redis.mjs'];
    for (const clientModule of modules) {
      const { source } = redisLeaseStore({ client, clientModule });
      expect(source!.options).toMatchObject({ clientModule: 'file:///clients/redis.mjs' });
    }
  });
});
