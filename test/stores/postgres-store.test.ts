import pg from 'pg';
import postgres from 'postgres';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, type GrantDetails } from 'stripelock';
import { postgresLeaseStore } from 'stripelock/postgres';
import { openPgLite } from '../support/postgres-clients.mjs';
import { Proxy } from '../support/proxy.mjs';
import { expectReadersOrWriter } from './readers.js';
import { rejectionOf, thrownBy, watch } from '../support/waiting.js';
import { postgresLibraries, PostgresScene, type PostgresStore } from './postgres-setup.js';

const LONG = 600_000;

describe.skipIf(postgresLibraries.length === 0)('the PostgreSQL store', () => {
  const scene = new PostgresScene();
  const url = (): string => scene.server.url;

  it('lists by its primary key, and more leases than one statement reads', async () => {
    const table = scene.newTable();
    const client = await scene.connect('pg');
    const store = scene.storeOn(client, { table });
    const keys = Array.from({ length: 2500 }, (_, i) => `key ${String(i).padStart(4, '0')}`);
    await store.tryAcquireAll(keys, 'a', LONG);
    expect((await store.list({ limit: 10_000 })).map(({ key }) => key)).toEqual(keys);
    expect((await store.list({ limit: 1001 })).at(-1)!.key).toBe(keys[1000]);
    await scene.server.query(`ANALYZE ${table}`);
    const plan = await scene.server.query(
      `EXPLAIN SELECT key FROM ${table} WHERE key >= 'key 1' AND key > '' AND key < 'key 2'
        AND expires > clock_timestamp() ORDER BY key LIMIT 10`,
    );
    expect(JSON.stringify(plan)).toMatch(/Index Cond: .*key >= 'key 1'.*key < 'key 2'/);
  });

  it('makes its tables when it is first used, by many at once, in a schema of the name', async () => {
    await scene.server.query('CREATE SCHEMA locks');
    const client = await scene.connect('pg', undefined, { max: 8 });
    const stores = Array.from({ length: 8 }, () => scene.storeOn(client, { table: 'locks.Jobs' }));
    const tokens = await Promise.all(stores.map((store, i) => store.tryAcquire('key', `owner ${i}`, LONG)));
    expect(tokens.filter((token) => token !== undefined)).toHaveLength(1);
    expect(await scene.server.query('SELECT key FROM locks."Jobs"')).toEqual([{ key: 'key' }]);
  });

  it('needs no right to make tables that are there', async () => {
    const table = scene.newTable();
    const client = await scene.connect();
    await scene.storeOn(client, { table }).inspect('key');
    await scene.server.query(
      `CREATE ROLE poor LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ${table}, ${table}_floor TO poor`,
    );
    const pool = new pg.Pool({ connectionString: url().replace('test@', 'poor@'), max: 1 });
    onTestFinished(() => pool.end());
    const store = scene.storeOn(pool, { table });
    expect(await store.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('fails a waiting acquisition at once if it has no rights, or may not create the tables', async () => {
    const table = scene.newTable();
    await scene.storeOn(await scene.connect(), { table }).inspect('key');
    await scene.server.query(`CREATE ROLE stranger LOGIN; REVOKE CREATE ON SCHEMA public FROM public`);
    const pool = new pg.Pool({ connectionString: url().replace('test@', 'stranger@') });
    onTestFinished(() => pool.end());
    for (const name of [table, scene.newTable(), 'nowhere.leases']) {
      const manager = new LeaseManager({ store: scene.storeOn(pool, { table: name }) });
      const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED', cause: { severity: 'ERROR' } });
      await manager.close();
    }
  });

  describe('if connections are cut', () => {
    const behindProxy = async (
      library: 'pg' | 'postgres' | 'pg-client',
      max = 4,
    ): Promise<[Proxy, PostgresStore, string]> => {
      const table = scene.newTable();
      const proxy = await Proxy.to(scene.server.port);
      onTestFinished(() => proxy.close());
      const store = scene.storeOn(await scene.connect(library, proxy.port, { max }), { table });
      return [proxy, store, table];
    };

    it.each(['pg', 'postgres'] as const)('releases on another connection: a pool of %s', async (library) => {
      const [proxy, store] = await behindProxy(library);
      await store.tryAcquireAll(['a', 'b', 'c'], 'me', LONG);
      await store.tryAcquireShared('shared', 'me', LONG);
      // All connections of the pool are in use, so that there are several.
      await Promise.all(['a', 'b', 'c', 'd'].map((key) => store.inspect(key)));
      proxy.cut();
      const released = [
        store.release('a', 'me'),
        store.releaseAll(['b', 'c'], 'me'),
        store.releaseShared('shared', 'me'),
      ];
      expect(await Promise.all(released)).toEqual([true, [true, true], true]);
      expect(await store.release('a', 'me')).toBe(false);
      expect(await store.releaseShared('shared', 'me')).toBe(false);
    });

    it.each([
      ['release', 'pg'],
      ['release', 'postgres'],
      ['releaseShared', 'pg'],
      ['releaseShared', 'postgres'],
    ] as const)(
      'never says that nothing was held if the server has executed the release: %s on a pool of %s',
      async (release, library) => {
        const [proxy, store, table] = await behindProxy(library, 1);
        await (release === 'release'
          ? store.tryAcquire('key', 'me', LONG)
          : store.tryAcquireShared('key', 'me', LONG));
        // The connection has the statement prepared from now on: it is executed without an answer before that.
        await store[release]('other', 'me');
        proxy.delay = 60_000;
        const lost = rejectionOf(store[release]('key', 'me'));
        const owners = (): Promise<unknown> => scene.server.query(`SELECT owner FROM ${table}`);
        await expect.poll(owners, { timeout: 20_000 }).toEqual([{ owner: '' }]);
        proxy.cut();
        proxy.delay = 0;
        expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
        expect(await store.inspect('key')).toBeUndefined();
      },
    );

    it.each(['pg', 'postgres'] as const)(
      'never says that a key was not held which it has freed before the connection was lost: a pool of %s',
      async (library) => {
        const [proxy, store, table] = await behindProxy(library, 1);
        await store.tryAcquireAll(['a', 'b'], 'me', LONG);
        await store.releaseAll(['c', 'd'], 'me');
        // The first statement skips the row of "b", so that the second one finds that row, but not the one of "a".
        const locker = (await scene.connect('pg-client')) as pg.Client;
        await locker.query(`BEGIN; SELECT FROM ${table} WHERE key = 'b' FOR UPDATE`);
        proxy.delay = 60_000;
        const lost = rejectionOf(store.releaseAll(['a', 'b'], 'me'));
        const owners = (): Promise<unknown> =>
          scene.server.query(`SELECT owner FROM ${table} WHERE key IN ('a', 'b') ORDER BY key`);
        await expect.poll(owners, { timeout: 20_000 }).toEqual([{ owner: '' }, { owner: 'me' }]);
        await locker.query('ROLLBACK');
        proxy.cut();
        proxy.delay = 0;
        expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
        expect(await owners()).toEqual([{ owner: '' }, { owner: '' }]);
      },
    );

    it('fails all waiters at once if a Client of pg never connects again', async () => {
      const [proxy, store] = await behindProxy('pg-client');
      const manager = new LeaseManager({ store });
      const lease = await manager.acquire('key');
      proxy.cut();
      const ended = { code: 'ERR_LEASE_CLIENT_ENDED', message: expect.stringContaining('Pool') as string };
      expect(await rejectionOf(manager.acquire('other', { timeout: 60_000 }))).toMatchObject(ended);
      expect(await rejectionOf(lease.release())).toMatchObject(ended);
    });
  });

  it('fails a waiting acquisition at once inside a transaction', async () => {
    const client = (await scene.connect('pg-client')) as pg.Client;
    const manager = new LeaseManager({ store: scene.storeOn(client, { table: scene.newTable() }) });
    await client.query('BEGIN');
    const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
    expect(error).toMatchObject({ code: 'ERR_LEASE_IN_TRANSACTION' });
    await client.query('ROLLBACK');
    const lease = await manager.acquire('key');
    expect(await lease.release()).toBe(true);
  });

  it('creates its tables again if they are dropped', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    const first = await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`DROP TABLE ${table}, ${table}_floor`);
    expect((await store.tryAcquire('key', 'b', LONG))! > first!).toBe(true);
  });

  it('creates its tables again if the server never answers', async () => {
    const table = scene.newTable();
    const client = new pg.Pool({ connectionString: url(), max: 2 });
    onTestFinished(() => client.end());
    let isLost = false;
    const pool = {
      query(text: string, values: unknown[]): Promise<unknown> {
        if (isLost || !text.includes('CREATE TABLE')) return client.query(text, values);
        isLost = true;
        return new Promise(() => undefined);
      },
    };
    const store = scene.storeOn(pool, { table, timeout: 1000 });
    const asked = [store.inspect('key'), store.tryAcquire('key', 'a', LONG)];
    for (const operation of asked) {
      expect(await rejectionOf(operation)).toMatchObject({ code: 'ERR_LEASE_STORE' });
    }
    // On a busy machine, this attempt may be late, too.
    const answer = (): Promise<string> => store.inspect('key').then(() => 'answered', String);
    await expect.poll(answer, { timeout: 20_000 }).toBe('answered');
  });

  it.each(['serializable', 'repeatable read'])(
    'grants to one of many where the default isolation is %s',
    async (isolation) => {
      const options = `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`;
      const pool = new pg.Pool({ connectionString: url(), options, max: 8 });
      onTestFinished(() => pool.end());
      const table = scene.newTable();
      const stores = Array.from({ length: 8 }, () => scene.storeOn(pool, { table }));
      for (let round = 0; round < 20; round++) {
        const asked = stores.map((store, i) => store.tryAcquire('key', `owner ${i}`, LONG));
        const granted = (await Promise.all(asked)).findIndex((token) => token !== undefined);
        const several = await Promise.all(
          stores.map((store, i) => store.tryAcquireAll(['a', 'key'], `owner ${i}`, LONG)),
        );
        expect(several.map((answer) => typeof answer)).toEqual(
          stores.map((_, i) => (i === granted ? 'object' : 'number')),
        );
        expect(await stores[0]!.releaseAll(['a', 'key'], `owner ${granted}`)).toEqual([true, true]);
        await expectReadersOrWriter(stores, round);
      }
    },
  );

  it('refuses a client of pg inside a transaction, also if that has only just been begun', async () => {
    const client = (await scene.connect('pg-client')) as pg.Client;
    const store = scene.storeOn(client, { table: scene.newTable() });
    await store.inspect('key');
    const refused = { code: 'ERR_LEASE_IN_TRANSACTION' };
    await client.query('BEGIN');
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject(refused);
    await client.query('ROLLBACK');
    const begun = client.query('BEGIN');
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject(refused);
    await begun;
    await client.query('ROLLBACK');
    expect(await store.tryAcquire('key', 'b', LONG)).toBeTypeOf('bigint');
  });

  it('knows of the transaction without the help of the client, as older versions of pg have none', async () => {
    const client = (await scene.connect('pg-client')) as pg.Client;
    Object.assign(client, { getTransactionStatus: undefined });
    const store = scene.storeOn(client, { table: scene.newTable() });
    await store.inspect('key');
    await client.query('BEGIN');
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject({
      code: 'ERR_LEASE_IN_TRANSACTION',
    });
    await client.query('ROLLBACK');
    expect(await store.tryAcquire('key', 'b', LONG)).toBeTypeOf('bigint');
  });

  it('refuses the transaction of postgres, and one that is open on its only connection', async () => {
    const table = scene.newTable();
    const sql = postgres(url(), { max: 1, onnotice: () => undefined });
    onTestFinished(() => sql.end({ timeout: 0 }));
    const refused = { code: 'ERR_LEASE_IN_TRANSACTION' };
    await scene.storeOn(sql, { table }).inspect('key');
    await sql.begin(async (transaction) => {
      const store = scene.storeOn(transaction, { table });
      await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject(refused);
      const end = store.onRelease('key', () => undefined);
      end();
    });
    const store = scene.storeOn(sql, { table });
    await sql.unsafe('BEGIN');
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject(refused);
    await sql.unsafe('ROLLBACK');
    expect(await store.tryAcquire('key', 'b', LONG)).toBeTypeOf('bigint');
  });

  it('keeps tokens rising after expired rows were purged and the clock was set back', async () => {
    const table = scene.newTable();
    const client = await scene.connect();
    await scene.storeOn(client, { table }).tryAcquire('key', 'a', LONG);
    // Pretends that a clock was ahead by centuries.
    await scene.server.query(
      `UPDATE ${table} SET token = 9000000000000000000, expires = now() - interval '1 day'`,
    );
    const store = scene.storeOn(client, { table });
    // Each 1000 grants are followed by a purge. The first raises the floor, the second removes the row.
    const left = (): Promise<unknown[]> => scene.server.query(`SELECT 1 FROM ${table} WHERE key = 'key'`);
    for (let i = 0; (await left()).length > 0; i++) {
      expect(i).toBeLessThan(10);
      const keys = Array.from({ length: 1000 }, (_, n) => `other ${n}`);
      await store.tryAcquireAll(keys, 'b', LONG);
    }
    const fresh = scene.storeOn(client, { table });
    expect(await fresh.tryAcquire('key', 'b', LONG)).toBe(9000000000000000001n);
  });

  it('purges a released row after a minute, and keeps an abandoned one for a day', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    await store.tryAcquireAll(['young', 'old', 'kept'], 'gone', LONG);
    const kept = (await store.inspect('kept'))!.token;
    expect(await store.keep('kept', 'gone', LONG, kept)).toBe(true);
    await store.tryAcquire('released', 'a', LONG);
    await store.release('released', 'a');
    await scene.server.query(
      `UPDATE ${table} SET expires = now() - CASE key WHEN 'old' THEN interval '25 hours' ELSE interval '23 hours' END`,
    );
    const left = (): Promise<unknown[]> => {
      return scene.server.query(`SELECT key FROM ${table} WHERE key NOT LIKE 'other%' ORDER BY key`);
    };
    for (let i = 0; (await left()).length > 1; i++) {
      expect(i).toBeLessThan(10);
      const keys = Array.from({ length: 1000 }, (_, n) => `other ${n}`);
      await store.tryAcquireAll(keys, 'b', LONG);
    }
    expect(await left()).toEqual([{ key: 'young' }]);
    const details: GrantDetails = {};
    await store.tryAcquireAll(['young', 'old', 'kept'], 'next', LONG, undefined, details);
    expect(details.abandoned).toEqual([true, false, false]);
  });

  it.each(['tryAcquire', 'tryAcquireAll', 'renew', 'release', 'keep'] as const)(
    'adds a column to a table of version 1.0, with any first operation: %s',
    async (first) => {
      const table = scene.newTable();
      await scene.server.query(
        `CREATE TABLE ${table} (key text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, token bigint NOT NULL,
          expires timestamptz NOT NULL, info text, waited boolean NOT NULL DEFAULT false)`,
      );
      await scene.server.query(
        `CREATE TABLE ${table}_floor (id integer PRIMARY KEY CHECK (id = 1), token bigint NOT NULL, purged bigint NOT NULL)`,
      );
      await scene.server.query(`INSERT INTO ${table}_floor VALUES (1, 0, 0)`);
      await scene.server.query(
        `INSERT INTO ${table} VALUES ('key', 'a', 5, now() + interval '1 hour'), ('expired', 'a', 6, now())`,
      );
      const store = scene.storeOn(await scene.connect(), { table });
      const calls = {
        tryAcquire: () => store.tryAcquire('key', 'b', LONG),
        tryAcquireAll: () => store.tryAcquireAll(['other', 'key'], 'b', LONG),
        renew: () => store.renew('key', 'a', LONG),
        release: () => store.release('key', 'a', 5n),
        keep: () => store.keep('key', 'a', LONG, 5n),
      };
      const answers = { tryAcquire: undefined, tryAcquireAll: 1, renew: true, release: true, keep: true };
      expect(await calls[first]()).toBe(answers[first]);
      const details: GrantDetails = {};
      expect(await store.tryAcquire('expired', 'b', LONG, undefined, details)).toBeTypeOf('bigint');
      // Version 1.0 has not written how it ended.
      expect(details.abandoned).toEqual([false]);
      // As version 1.0 releases a key: it leaves the new column as it is.
      await scene.server.query(`UPDATE ${table} SET owner = '', expires = '-infinity' WHERE key = 'expired'`);
      await store.tryAcquire('expired', 'c', LONG, undefined, details);
      expect(details.abandoned).toEqual([false]);
    },
  );

  it('keeps tokens rising for a client that acquires a key while its row is purged', async () => {
    const table = scene.newTable();
    const [purging, store] = [
      scene.storeOn(await scene.connect(), { table }),
      scene.storeOn(await scene.connect(), { table }),
    ];
    await store.tryAcquire('key', 'a', LONG);
    // Pretends that a clock was ahead by centuries.
    await scene.server.query(
      `UPDATE ${table} SET token = 9000000000000000000, expires = now() - interval '1 day'`,
    );
    const locker = (await scene.connect('pg-client')) as pg.Client;
    await locker.query(`BEGIN; SELECT FROM ${table}_floor FOR UPDATE`);
    const waiting = async (): Promise<number> => {
      return (await scene.server.query('SELECT 1 FROM pg_locks WHERE NOT granted')).length;
    };
    // The purge after these grants waits for the locked floor. If it had deleted the row already, the next client would
    // read the old floor, and then wait for the purge.
    await purging.tryAcquireAll(
      Array.from({ length: 1000 }, (_, n) => `other ${n}`),
      'a',
      LONG,
    );
    await expect.poll(waiting, { timeout: 30_000 }).toBeGreaterThan(0);
    const taken = watch(store.tryAcquire('key', 'b', LONG));
    await expect
      .poll(async () => taken.state !== 'pending' || (await waiting()) > 1, { timeout: 30_000 })
      .toBe(true);
    await locker.query('COMMIT');
    expect(await taken.promise).toBe(9000000000000000001n);
  });

  it('gives a token above those that it has seen, if the table was emptied and the clock set back', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`UPDATE ${table} SET token = 9000000000000000000`);
    await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`TRUNCATE ${table}`);
    expect(await store.tryAcquire('key', 'a', LONG)).toBe(9000000000000000002n);
    await scene.server.query(`TRUNCATE ${table}`);
    const [token] = (await store.tryAcquireAll(['key', 'b'], 'a', LONG)) as bigint[];
    expect(token).toBe(9000000000000000003n);
  });

  it('does not let the process end when an idle connection of a pool without a listener is lost', async () => {
    const pool = new pg.Pool({ connectionString: url(), max: 2, application_name: 'unheard' });
    onTestFinished(() => pool.end());
    const store = scene.storeOn(pool, { table: scene.newTable() });
    await store.inspect('key');
    expect(pool.listenerCount('error')).toBe(1);
    await scene.server.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'unheard'`,
    );
    await expect.poll(() => pool.totalCount).toBe(0);
    expect(await store.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
    await store.close();
    expect(pool.listenerCount('error')).toBe(0);
  });

  it('waits for a locked row for no longer than its time limit, and leaves the connection free', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('pg', undefined, { max: 1 })) as pg.Pool;
    await scene.storeOn(pool, { table }).tryAcquire('key', 'a', LONG);
    const locker = (await scene.connect('pg-client')) as pg.Client;
    await locker.query(`BEGIN; SELECT FROM ${table} FOR UPDATE`);
    const store = scene.storeOn(pool, { table, timeout: 300 });
    const started = performance.now();
    await expect(store.renew('key', 'a', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    await expect(store.tryAcquireAll(['key', 'b'], 'a', LONG)).rejects.toMatchObject({
      code: 'ERR_LEASE_STORE',
    });
    // Neither statement waits any more, so the one connection of the pool can look.
    expect(await scene.storeOn(pool, { table }).inspect('key')).toMatchObject({ owner: 'a' });
    // Without a limit they would wait for as long as the row is locked.
    expect(performance.now() - started).toBeLessThan(20_000);
    await locker.query('ROLLBACK');
  });

  it('waits for no longer than its time limit to make its tables, and leaves the connection free', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('pg', undefined, { max: 1 })) as pg.Pool;
    const locker = (await scene.connect('pg-client')) as pg.Client;
    // Another client creates the same table, and has not committed.
    await locker.query(`BEGIN; CREATE TABLE ${table} ()`);
    const store = scene.storeOn(pool, { table, timeout: 300 });
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    // It would wait for as long as that one does.
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await locker.query('ROLLBACK');
    expect(await scene.storeOn(pool, { table }).inspect('key')).toBeUndefined();
  });

  it('fails within its time limit while the pool has no free connection, and then asks nothing', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('pg', undefined, { max: 1 })) as pg.Pool;
    await scene.storeOn(pool, { table }).inspect('key');
    const busy = await pool.connect();
    const store = scene.storeOn(pool, { table, timeout: 50 });
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    busy.release();
    expect(await scene.storeOn(pool, { table }).inspect('key')).toBeUndefined();
    expect(await scene.server.query(`SELECT key FROM ${table}`)).toEqual([]);
  });

  it('rejects once it is closed, and leaves the client open', async () => {
    const client = (await scene.connect()) as pg.Pool;
    const store = scene.storeOn(client, { table: scene.newTable() });
    await store.close();
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  });

  it('refuses bad options', () => {
    const client = new pg.Client();
    const bad: [object | undefined, string][] = [
      [undefined, 'ERR_INVALID_ARG_TYPE'],
      [{}, 'ERR_INVALID_ARG_TYPE'],
      [{ client: {} }, 'ERR_INVALID_ARG_TYPE'],
      [{ pool: 'postgres://' }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, pool: client }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, table: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, table: '' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'a"b' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'a.b.c' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'x'.repeat(51) }, 'ERR_OUT_OF_RANGE'],
      [{ client, timeout: -1 }, 'ERR_OUT_OF_RANGE'],
      [{ client, drift: 2 }, 'ERR_OUT_OF_RANGE'],
      [{ client, clientModule: 5 }, 'ERR_INVALID_ARG_TYPE'],
    ];
    for (const [options, code] of bad) {
      expect(thrownBy(() => postgresLeaseStore(options as never))).toMatchObject({ code });
    }
  });

  it('keeps a key from others for its minHold', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    const lease = await new LeaseManager({ store, ttl: LONG, minHold: 60_000 }).acquire('key');
    await lease.release();
    expect(await store.tryAcquire('key', 'other', LONG)).toBeUndefined();
  });
});

it('the PostgreSQL store refuses a PGlite inside a transaction', async () => {
  const { client, close } = await openPgLite();
  const store = postgresLeaseStore({ client, timeout: 30_000 });
  await store.inspect('key');
  await client.exec('BEGIN');
  await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject({
    code: 'ERR_LEASE_IN_TRANSACTION',
  });
  await client.exec('ROLLBACK');
  expect(await store.tryAcquire('key', 'b', LONG)).toBeTypeOf('bigint');
  await close();
});
