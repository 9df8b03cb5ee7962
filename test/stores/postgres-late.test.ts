import { describe, expect, it } from 'vitest';
import { Proxy } from '../support/proxy.mjs';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';

const LONG = 600_000;

describe.each(postgresLibraries)('a grant of PostgreSQL that comes late, on %s', (library) => {
  const scene = new PostgresScene();

  it.each([
    ['one key', ['key']],
    ['several keys', ['key', 'b']],
  ])('is given back: %s', async (_what, keys) => {
    const table = scene.newTable();
    const direct = scene.storeOn(await scene.connect(), { table });
    const proxy = await Proxy.to(scene.server.port);
    const client = await scene.connect(library, proxy.port, { max: 1 });
    const warm = scene.storeOn(client, { table });
    // A library may ask the server for the types of a statement's parameters, and send the statement when it knows them.
    await warm.tryAcquire('warm', 'a', LONG);
    await warm.tryAcquireAll(['warm', 'warm 2'], 'a', LONG);
    const store = scene.storeOn(client, { table, timeout: 200 });
    proxy.delay = 1500;
    const asked =
      keys.length === 1 ? store.tryAcquire('key', 'a', LONG) : store.tryAcquireAll(keys, 'a', LONG);
    await expect(asked).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(await direct.inspect('key')).toMatchObject({ owner: 'a' });
    proxy.delay = 0;
    for (const key of keys) {
      await expect.poll(() => direct.inspect(key), { timeout: 20_000 }).toBeUndefined();
    }
    await proxy.close();
  });

  it('stays if its owner has taken the key again in between', async () => {
    const table = scene.newTable();
    const direct = scene.storeOn(await scene.connect(), { table });
    const proxy = await Proxy.to(scene.server.port);
    const client = await scene.connect(library, proxy.port, { max: 1 });
    await scene.storeOn(client, { table }).inspect('key');
    const store = scene.storeOn(client, { table, timeout: 1000 });
    proxy.delay = 1500;
    const late = store.tryAcquire('key', 'a', LONG);
    await expect(late).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    proxy.delay = 0;
    const token = await store.tryAcquire('key', 'a', LONG);
    expect(token).toBeTypeOf('bigint');
    // One connection: what came late was given back before this is answered, if at all.
    await store.inspect('other');
    expect(await direct.inspect('key')).toMatchObject({ owner: 'a', token });
    await proxy.close();
  });
});
