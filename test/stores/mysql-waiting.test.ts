import type { Pool } from 'mysql2/promise';
import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { until } from '../support/waiting.js';
import { mysqlLibraries, MysqlScene, PATIENT } from './mysql-setup.js';

const LONG = 600_000;

/** The pool, with a list of the statements that are sent through it. */
function recorded(pool: Pool): { pool: Pool; sent: string[] } {
  const sent: string[] = [];
  const recording = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(on, name) {
        const value: unknown = Reflect.get(on, name, on);
        if (typeof value !== 'function') return value;
        return async (...of: unknown[]): Promise<unknown> => {
          if (name === 'query') sent.push((of[0] as { sql: string }).sql);
          const result: unknown = await Reflect.apply(value, on, of);
          return name === 'getConnection' ? recording(result as object) : result;
        };
      },
    });
  return { pool: recording(pool), sent };
}

describe.each(mysqlLibraries)('a waiter for a lease in MySQL, on %s', (library) => {
  const scene = new MysqlScene();

  it('has it soon after its release by another client, without polling of its manager', async () => {
    const table = scene.newTable();
    const [one, other] = [await scene.store(library, { table }), await scene.store(library, { table })].map(
      (store) => new LeaseManager({ store, ttl: LONG, backoff: PATIENT }),
    );
    const times: number[] = [];
    for (let i = 0; i < 10; i++) {
      const held = await one!.acquire('key');
      const waiting = other!.acquire('key', { timeout: 30_000 });
      expect(await other!.tryAcquire('key')).toBeUndefined();
      const released = performance.now();
      await held.release();
      const lease = await waiting;
      times.push(performance.now() - released);
      await lease.release();
    }
    times.sort((a, b) => a - b);
    console.log(`${library}: from release to grant ${times[5]!.toFixed(1)} ms in the median`);
    // Polling would take up to 20 s.
    expect(times.at(-1)).toBeLessThan(5000);
  });

  it('has it when it expires', async () => {
    const table = scene.newTable();
    const holder = await scene.store(library, { table });
    const asked = performance.now();
    await holder.tryAcquire('key', 'gone', 500);
    const store = await scene.store(library, { table });
    const lease = await new LeaseManager({ store, ttl: LONG, backoff: PATIENT }).acquire('key', {
      timeout: 19_000,
    });
    expect(performance.now() - asked).toBeGreaterThan(500);
    expect(await lease.release()).toBe(true);
  });

  it('has several keys after the release of the one that was missing', async () => {
    const table = scene.newTable();
    const holder = await scene.store(library, { table });
    const store = await scene.store(library, { table });
    await holder.tryAcquire('b', 'holder', LONG);
    const manager = new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
    const waiting = manager.acquire(['a', 'b', 'c'], { timeout: 19_000 });
    expect(await manager.tryAcquire('b')).toBeUndefined();
    expect(await holder.releaseAll(['b'], 'holder')).toEqual([true]);
    const lease = await waiting;
    expect(await lease.release()).toBe(true);
  });
});

describe.skipIf(mysqlLibraries.length === 0)('waiters for leases in MySQL', () => {
  const scene = new MysqlScene();

  it('share one look at the server, and end it with the last of them', async () => {
    const table = scene.newTable();
    const holder = await scene.store('mysql2 pool', { table });
    const keys = Array.from({ length: 20 }, (_, i) => `key ${i}`);
    for (const key of keys) await holder.tryAcquire(key, 'holder', LONG);
    const { pool, sent } = recorded((await scene.connect('mysql2/promise pool')) as Pool);
    const store = scene.storeOn(pool, { table });
    const managers = [1, 2].map(() => new LeaseManager({ store, ttl: LONG, backoff: PATIENT }));
    const waiting = managers.flatMap((manager) =>
      keys.map((key) => manager.acquire(key, { timeout: 60_000 })),
    );
    const names = keys.map((key) => Buffer.from(key).toString('hex'));
    await until(() => sent.length >= 2 * keys.length, 'all have asked once');
    await until(() => names.every((name) => sent.at(-1)!.includes(name)), 'all wait');
    sent.length = 0;
    await until(() => sent.length >= 5, 'the store has looked five times');
    for (const sql of sent) expect(names.filter((name) => !sql.includes(name))).toEqual([]);
    await holder.releaseAll(keys, 'holder');
    // Either manager may be first at a key: they asked on different connections.
    await Promise.all(waiting.map(async (acquired) => (await acquired).release()));
    for (const manager of managers) await manager.close();
    await store.close();
    const after = sent.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(sent.length).toBe(after);
  });

  it('look again after the server was away', async () => {
    const table = scene.newTable();
    const holder = await scene.store('mysql2 pool', { table });
    await holder.tryAcquire('key', 'holder', LONG);
    const store = await scene.store('mariadb pool', { table });
    const manager = new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
    const waiting = manager.acquire('key', { timeout: 60_000 });
    expect(await manager.tryAcquire('key')).toBeUndefined();
    await scene.server.kill();
    await new Promise((resolve) => setTimeout(resolve, 100));
    await scene.server.start();
    const freed = (): Promise<unknown> => holder.release('key', 'holder').catch(() => false);
    await expect.poll(freed).toBe(true);
    expect(await (await waiting).release()).toBe(true);
  });
});
