import { describe, expect, it } from 'vitest';
import { REFUSES, startDyingPostgres } from '../support/dying-postgres.mjs';
import { Proxy } from '../support/proxy.mjs';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';

/** Milliseconds: sessions are kept for a second after the last who waits, and opened again later. */
const TIMEOUT = 60_000;

/** The library's list of listeners, by channel. It is private, but tests must see it. */
function listenersOf(sql: object): number[] {
  const { channels = {} } = (sql as { listen: { channels?: Record<string, { listeners: unknown[] }> } })
    .listen;
  return Object.values(channels).map(({ listeners }) => listeners.length);
}

describe.skipIf(postgresLibraries.length === 0)('a store that listens through the package postgres', () => {
  const scene = new PostgresScene();

  it(
    'leaves no more than one listener behind, however often the session is lost',
    async () => {
      const proxy = await Proxy.to(scene.server.port);
      const sql = await scene.connect('postgres', proxy.port);
      const table = scene.newTable();
      for (let i = 0; i < 4; i++) {
        let woken = 0;
        const stores = [1, 2].map(() => scene.storeOn(sql, { table }));
        for (const store of stores) store.onRelease('key', () => woken++);
        // Once by each store, when it gets the notification.
        await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
        woken = 0;
        proxy.cut();
        await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThanOrEqual(2);
        for (const store of stores) await store.close();
        expect(listenersOf(sql)).toEqual([1]);
      }
      await proxy.close();
    },
    TIMEOUT,
  );

  it(
    'does not request more and more sessions while the server refuses them, and listens again afterwards',
    async () => {
      const dying = await startDyingPostgres(REFUSES);
      const proxy = await Proxy.to(dying.port);
      const sql = await scene.connect('postgres', proxy.port);
      const store = scene.storeOn(sql, { table: scene.newTable() });
      let woken = 0;
      store.onRelease('key', () => woken++);
      await expect.poll(() => dying.sessions, { timeout: 20_000 }).toBeGreaterThan(20);
      expect(listenersOf(sql)).toEqual([1]);
      proxy.target = scene.server.port;
      await expect.poll(() => woken, { timeout: 20_000 }).toBe(1);
      await proxy.close();
      dying.close();
    },
    TIMEOUT,
  );
});
