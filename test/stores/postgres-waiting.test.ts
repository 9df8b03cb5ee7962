import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { Proxy } from '../support/proxy.mjs';
import { PATIENT, postgresLibraries, PostgresScene } from './postgres-setup.js';

const LONG = 600_000;

describe.each(postgresLibraries)('a waiter for a lease in PostgreSQL, on %s', (library) => {
  const scene = new PostgresScene();

  /** How long after its release, in milliseconds, a lease is granted to another client that waits for it. */
  async function handOvers(count: number): Promise<number[]> {
    const table = scene.newTable();
    const [one, other] = [await scene.connect(library), await scene.connect(library)].map((client) => {
      const store = scene.storeOn(client, { table });
      return new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
    });
    const times: number[] = [];
    for (let i = 0; i < count; i++) {
      const held = await one!.acquire('key');
      const waiting = other!.acquire('key', { timeout: 30_000 });
      await expect
        .poll(async () => (await scene.server.query(`SELECT waited FROM ${table}`))[0]?.['waited'], {
          timeout: 20_000,
        })
        .toBe(true);
      const released = performance.now();
      await held.release();
      const lease = await waiting;
      times.push(performance.now() - released);
      await lease.release();
    }
    return times.sort((a, b) => a - b);
  }

  it('has it soon after its release by another client, without polling', async () => {
    const times = await handOvers(10);
    console.log(`${library}: from release to grant ${times[5]!.toFixed(1)} ms in the median`);
    // Polling would take up to 20 s.
    expect(times.at(-1)).toBeLessThan(5000);
  });

  it('has it when it expires', async () => {
    const table = scene.newTable();
    const holder = scene.storeOn(await scene.connect(library), { table });
    const store = scene.storeOn(await scene.connect(library), { table });
    const asked = performance.now();
    await holder.tryAcquire('key', 'gone', 500);
    const manager = new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
    const lease = await manager.acquire('key', { timeout: 19_000 });
    expect(performance.now() - asked).toBeGreaterThan(500);
    expect(await lease.release()).toBe(true);
  });

  it('listens again after its session was lost', async () => {
    const table = scene.newTable();
    const holder = scene.storeOn(await scene.connect('pg'), { table });
    const proxy = await Proxy.to(scene.server.port);
    const store = scene.storeOn(await scene.connect(library === 'pg-client' ? 'pg' : library, proxy.port), {
      table,
    });
    await holder.tryAcquire('key', 'holder', LONG);
    const manager = new LeaseManager({ store, ttl: LONG, backoff: { initial: 20_000, max: 20_000 } });
    const waiting = manager.acquire('key', { timeout: 60_000 });
    const waited = async (): Promise<unknown> =>
      (await scene.server.query(`SELECT waited FROM ${table} WHERE key = 'key'`))[0]?.['waited'];
    await expect.poll(waited, { timeout: 20_000 }).toBe(true);
    await scene.server.query(`UPDATE ${table} SET waited = false`);
    proxy.cut();
    // It asks at once when it listens again, and records that it waits.
    await expect.poll(waited, { timeout: 20_000 }).toBe(true);
    await holder.release('key', 'holder');
    const lease = await waiting;
    expect(await lease.release()).toBe(true);
    await store.close();
    await proxy.close();
  });

  it('has several keys after the release of the one that was missing', async () => {
    const table = scene.newTable();
    const holder = scene.storeOn(await scene.connect(library), { table });
    const store = scene.storeOn(await scene.connect(library), { table });
    await holder.tryAcquire('b', 'holder', LONG);
    const manager = new LeaseManager({ store, ttl: LONG, backoff: PATIENT });
    const waiting = manager.acquire(['a', 'b', 'c'], { timeout: 19_000 });
    await expect
      .poll(
        async () => (await scene.server.query(`SELECT waited FROM ${table} WHERE key = 'b'`))[0]?.['waited'],
      )
      .toBe(true);
    expect(await holder.releaseAll(['b'], 'holder')).toEqual([true]);
    const lease = await waiting;
    expect(await lease.release()).toBe(true);
  });
});

describe.skipIf(postgresLibraries.length === 0)('a release in PostgreSQL', () => {
  const scene = new PostgresScene();

  it('sends no notification without a waiter', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    const heard: string[] = [];
    const listener = (await scene.connect('pg-client')) as import('pg').Client;
    listener.on('notification', ({ channel }) => heard.push(channel));
    const [{ name }] = (await scene.server.query(
      `SELECT 'stripelock_' || left(encode(sha256('${table}'), 'hex'), 24) AS name`,
    )) as [{ name: string }];
    await listener.query(`LISTEN ${name}`);
    await store.tryAcquire('key', 'a', LONG);
    await store.release('key', 'a');
    await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`UPDATE ${table} SET waited = true`);
    await store.release('key', 'a');
    await expect.poll(() => heard.length).toBeGreaterThan(0);
    expect(heard).toEqual([name]);
  });
});
