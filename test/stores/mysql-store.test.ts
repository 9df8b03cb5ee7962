import type { Connection as MariadbConnection } from 'mariadb';
import mysql, { type Connection, type Pool, type RowDataPacket } from 'mysql2/promise';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { Proxy } from '../support/proxy.mjs';
import { expectReadersOrWriter } from './readers.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';
import {
  mysqlConnections,
  mysqlLibraries,
  mysqlPools,
  MysqlScene,
  type MysqlLibrary,
  type MysqlStore,
} from './mysql-setup.js';

const LONG = 600_000;

describe.skipIf(mysqlLibraries.length === 0)('the MySQL store', () => {
  const scene = new MysqlScene();

  /** A connection for the test itself. */
  async function connection(): Promise<Connection> {
    return (await scene.connect('mysql2/promise connection')) as Connection;
  }

  /** A pool whose connections run this statement first. */
  async function poolAfter(sql: string, max = 4): Promise<Pool> {
    const pool = (await scene.connect('mysql2/promise pool', undefined, { max })) as Pool;
    // Statements of a connection run in order.
    pool.on('connection', (made) => void made.query(sql));
    return pool;
  }

  it('makes its tables when it is first used, by many at once, in a database of the name', async () => {
    await scene.server.query('CREATE DATABASE locks');
    const client = await scene.connect('mysql2 pool', undefined, { max: 8 });
    const stores = Array.from({ length: 8 }, () => scene.storeOn(client, { table: 'locks.Jobs' }));
    const tokens = await Promise.all(stores.map((store, i) => store.tryAcquire('key', `owner ${i}`, LONG)));
    expect(tokens.filter((token) => token !== undefined)).toHaveLength(1);
    expect(await scene.server.query('SELECT CAST(name AS CHAR) AS name FROM locks.Jobs')).toEqual([
      { name: 'key' },
    ]);
  });

  it('needs no right to make tables that are there', async () => {
    const table = scene.newTable();
    await (await scene.store('mysql2 pool', { table })).inspect('key');
    await scene.server.query(
      `CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'poor'; GRANT USAGE ON *.* TO poor@'127.0.0.1';
       ${[table, `${table}_floor`]
         .map((name) => `GRANT SELECT, INSERT, UPDATE, DELETE ON test.${name} TO poor@'127.0.0.1'`)
         .join(';')}`,
    );
    const poor = await scene.connect('mariadb pool', scene.urlFor({ user: 'poor:poor' }));
    const store = scene.storeOn(poor, { table });
    expect(await store.tryAcquireAll(['a', 'b'], 'me', LONG)).toHaveLength(2);
    expect(await store.renewAll(['a', 'b'], 'me', LONG)).toEqual([true, true]);
    expect(await store.releaseAll(['a', 'b'], 'me')).toEqual([true, true]);
  });

  it('fails a waiting acquisition at once without rights, and if it may not create the tables', async () => {
    const table = scene.newTable();
    await (await scene.store('mysql2 pool', { table })).inspect('key');
    await scene.server.query(
      `CREATE DATABASE empty; CREATE USER stranger@'127.0.0.1' IDENTIFIED BY 'stranger';
       GRANT SELECT, INSERT, UPDATE, DELETE ON empty.* TO stranger@'127.0.0.1'`,
    );
    const url = scene.urlFor({ user: 'stranger:stranger', database: 'empty' });
    for (const library of mysqlPools) {
      const pool = await scene.connect(library, url);
      for (const name of [`test.${table}`, 'leases', 'nowhere.leases']) {
        const manager = new LeaseManager({ store: scene.storeOn(pool, { table: name }) });
        const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
        expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
        await manager.close();
      }
    }
  });

  it.each(mysqlPools)('fails a waiting acquisition if the password is wrong: %s', async (library) => {
    for (const url of [scene.urlFor({ user: 'test:s3cret' }), scene.urlFor({ database: 'nowhere' })]) {
      // A pool of `mariadb` reports the server's error only after this time. If that is too early, the acquisition retries.
      const store = scene.storeOn(await scene.connect(library, url, { acquireTimeout: 100 }));
      const manager = new LeaseManager({ store });
      const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
      expect(String(error)).not.toContain('s3cret');
      await manager.close();
    }
  });

  describe('if connections are cut', () => {
    const behindProxy = async (library: MysqlLibrary, max = 4): Promise<[Proxy, MysqlStore, string]> => {
      const table = scene.newTable();
      const proxy = await Proxy.to(scene.server.port);
      onTestFinished(() => proxy.close());
      const client = await scene.connect(library, scene.urlFor({ port: proxy.port }), { max });
      return [proxy, scene.storeOn(client, { table }), table];
    };

    it.each(mysqlPools)('releases on another connection: %s', async (library) => {
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

    it.each(mysqlPools.flatMap((pool) => [['release', pool] as const, ['releaseShared', pool] as const]))(
      'never says that nothing was held if the server has executed the release: %s on %s',
      async (release, library) => {
        const [proxy, store, table] = await behindProxy(library, 1);
        await (release === 'release'
          ? store.tryAcquire('key', 'me', LONG)
          : store.tryAcquireShared('key', 'me', LONG));
        // The store has read the server's settings, on the one connection.
        await store.inspect('key');
        proxy.delay = 60_000;
        const lost = rejectionOf(store[release]('key', 'me'));
        const owners = async (): Promise<unknown> =>
          scene.server.query(`SELECT CAST(owner AS CHAR) AS owner FROM ${table}`);
        await expect.poll(owners, { timeout: 20_000 }).toEqual([{ owner: '' }]);
        proxy.cut();
        proxy.delay = 0;
        expect(await lost).toMatchObject({ code: 'ERR_LEASE_STORE' });
        expect(await store.inspect('key')).toBeUndefined();
      },
    );

    it.each(mysqlConnections)(
      'fails all waiters at once if a single connection never connects again: %s',
      async (library) => {
        const [proxy, store] = await behindProxy(library);
        const manager = new LeaseManager({ store });
        const lease = await manager.acquire('key');
        proxy.cut();
        const ended = {
          code: 'ERR_LEASE_CLIENT_ENDED',
          message: expect.stringContaining('a pool') as string,
        };
        expect(await rejectionOf(manager.acquire('other', { timeout: 60_000 }))).toMatchObject(ended);
        expect(await rejectionOf(lease.release())).toMatchObject(ended);
      },
    );
  });

  it.each(mysqlLibraries)(
    'works again after its sessions were terminated while idle: %s',
    async (library) => {
      const { client, close } = await mysqlClients[library](scene.urlFor());
      onTestFinished(async () => {
        await Promise.resolve(close()).catch(() => undefined);
      });
      const store = scene.storeOn(client, { table: scene.newTable() });
      expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
      await scene.server.terminate();
      if (library.endsWith('connection')) {
        const ended = async (): Promise<unknown> => (await rejectionOf(store.renew('key', 'me', LONG))) ?? {};
        await expect.poll(ended).toMatchObject({ code: 'ERR_LEASE_CLIENT_ENDED' });
      } else {
        const renewed = (): Promise<unknown> => store.renew('key', 'me', LONG).catch(() => false);
        await expect.poll(renewed).toBe(true);
      }
    },
  );

  it.each(mysqlConnections)(
    'fails a waiting acquisition at once inside a transaction: %s',
    async (library) => {
      const client = (await scene.connect(library)) as { query(sql: string): unknown };
      const store = scene.storeOn(client, { table: scene.newTable() });
      await store.inspect('key');
      const manager = new LeaseManager({ store });
      for (const [begin, end] of [
        ['START TRANSACTION', 'ROLLBACK'],
        ['SET autocommit = 0', 'ROLLBACK'],
      ] as const) {
        // Statements of a connection run in order, so this one may still be on its way.
        void client.query(begin);
        const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
        expect(error).toMatchObject({ code: 'ERR_LEASE_IN_TRANSACTION' });
        void client.query(end);
      }
      void client.query('SET autocommit = 1');
      const lease = await manager.acquire('key');
      expect(await lease.release()).toBe(true);
    },
  );

  it('leaves no lease and no lock behind on a pool whose connections have autocommit off', async () => {
    const table = scene.newTable();
    const other = await scene.store('mariadb pool', { table });
    await other.inspect('key');
    const store = scene.storeOn(await poolAfter('SET autocommit = 0'), { table });
    expect(await rejectionOf(store.tryAcquire('key', 'me', LONG))).toMatchObject({
      code: 'ERR_LEASE_IN_TRANSACTION',
    });
    expect(await other.tryAcquire('key', 'you', LONG)).toBeTypeOf('bigint');
  });

  it('creates its tables again if they are dropped', async () => {
    const table = scene.newTable();
    const store = await scene.store('mysql2 pool', { table });
    const first = await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`DROP TABLE ${table}, ${table}_floor`);
    expect((await store.tryAcquire('key', 'b', LONG))! > first!).toBe(true);
  });

  it.each(['SERIALIZABLE', 'REPEATABLE READ', 'READ COMMITTED', 'READ UNCOMMITTED'])(
    'grants to one of many where the default isolation is %s',
    async (isolation) => {
      const pool = await poolAfter(`SET SESSION TRANSACTION ISOLATION LEVEL ${isolation}`, 8);
      const table = scene.newTable();
      const stores = Array.from({ length: 8 }, () => scene.storeOn(pool, { table }));
      for (let round = 0; round < 20; round++) {
        const key = `key ${round % 2}`;
        const asked = stores.map((store, i) => store.tryAcquire(key, `owner ${i}`, LONG));
        const granted = (await Promise.all(asked)).findIndex((token) => token !== undefined);
        const several = await Promise.all(
          stores.map((store, i) => store.tryAcquireAll(['z', key, 'a'], `owner ${i}`, LONG)),
        );
        expect(several.map((answer) => typeof answer)).toEqual(
          stores.map((_, i) => (i === granted ? 'object' : 'number')),
        );
        expect(await stores[0]!.releaseAll([key, 'a', 'z'], `owner ${granted}`)).toEqual([true, true, true]);
        await expectReadersOrWriter(stores, round);
      }
    },
  );

  it.each([
    '',
    'TRADITIONAL',
    'ANSI',
    'ORACLE',
    'SIMULTANEOUS_ASSIGNMENT',
    'NO_BACKSLASH_ESCAPES',
    'NO_UNSIGNED_SUBTRACTION',
    'EMPTY_STRING_IS_NULL',
  ])('gives the same answers in the SQL mode "%s"', async (mode) => {
    const store = scene.storeOn(await poolAfter(`SET SESSION sql_mode = '${mode}'`), {
      table: scene.newTable(),
    });
    const [first] = (await store.tryAcquireAll(['a', 'b\\'], 'me', LONG, 'an "info"')) as bigint[];
    expect(await store.tryAcquire('a', 'you', LONG)).toBeUndefined();
    expect(await store.tryAcquireAll(['c', 'b\\'], 'you', LONG)).toBe(1);
    expect(await store.inspect('c')).toBeUndefined();
    expect(await store.inspect('a')).toMatchObject({ owner: 'me', token: first, info: 'an "info"' });
    expect(await store.renewAll(['a', 'b\\', 'c'], 'me', LONG)).toEqual([true, true, false]);
    const second = await store.tryAcquire('a', 'me', LONG);
    expect(second! > first!).toBe(true);
    expect(await store.releaseAll(['a', 'b\\'], 'me')).toEqual([true, true]);
    await store.tryAcquire('a', 'me', 1);
    await expect.poll(() => store.inspect('a')).toBeUndefined();
    expect(await store.tryAcquireAll(['b\\', 'a'], 'you', LONG)).toHaveLength(2);
    const details = {};
    const group = (await store.tryAcquireShared('c', 'r1', LONG, details))!;
    expect(group.group).toBe(`stripelock:readers:r1:${group.token}`);
    expect(details).toEqual({ abandoned: [false] });
    expect(await store.tryAcquireShared('c', 'r2', LONG)).toEqual(group);
    expect(await store.putOffReaders('c', LONG)).toBe(true);
    expect(await store.tryAcquireShared('c', 'r3', LONG)).toBeUndefined();
    expect(await store.tryAcquireShared('c', 'r2', LONG)).toEqual(group);
    expect(await store.releaseShared('c', 'r3')).toBe(false);
    for (const reader of ['r1', 'r2']) expect(await store.releaseShared('c', reader)).toBe(true);
    expect(await store.tryAcquireShared('c', 'r3', LONG)).toBeUndefined();
    await store.tryAcquire('c', 'gone', 1);
    await expect.poll(() => store.inspect('c')).toBeUndefined();
    const next = (await store.tryAcquireShared('c', 'r4', LONG, details))!;
    expect(next.token > group.token).toBe(true);
    expect(next.group).toBe(`stripelock:readers:r4:${next.token}`);
    expect(details).toEqual({ abandoned: [true] });
    expect(await store.tryAcquireShared('c', 'r5', 2 * LONG, details)).toEqual(next);
    expect(details).toEqual({ abandoned: [true] });
    expect((await store.inspect('c'))!.remaining).toBeGreaterThan(LONG);
  });

  it('reads the right time in each time zone, also in an hour that a clock repeats', async () => {
    const table = scene.newTable();
    const [west, east] = [await connection(), await connection()];
    await west.query("SET time_zone = '-11:00'");
    await east.query("SET time_zone = '+13:00'");
    expect(await scene.storeOn(west, { table }).tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
    const { remaining } = (await scene.storeOn(east, { table }).inspect('key'))!;
    expect(remaining).toBeGreaterThan(LONG - 60_000);
    expect(remaining).toBeLessThanOrEqual(LONG);
  });

  it('keeps tokens rising after expired rows were purged and the clock was set back', async () => {
    const table = scene.newTable();
    const client = await scene.connect();
    await scene.storeOn(client, { table }).tryAcquire('key', 'a', LONG);
    // Grants of long ago, under a clock that was ahead by a moment that one row shows.
    const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    await scene.server.query(`UPDATE ${table} SET token = (${clock} - 61000000) * 1000, expires = 0`);
    const [{ token }] = (await scene.server.query(`SELECT CAST(token AS CHAR) AS token FROM ${table}`)) as [
      { token: string },
    ];
    const store = scene.storeOn(client, { table });
    // Each 1000 grants are followed by a purge. The first raises the floor, the second removes the row.
    const left = (): Promise<unknown[]> => scene.server.query(`SELECT 1 FROM ${table} WHERE name = 'key'`);
    for (let i = 0; (await left()).length > 0; i++) {
      expect(i).toBeLessThan(10);
      const keys = Array.from({ length: 1000 }, (_, n) => `other ${n}`);
      await store.tryAcquireAll(keys, 'b', LONG);
    }
    // The clock is set back by a day.
    const back = await connection();
    await back.query('SET timestamp = UNIX_TIMESTAMP() - 86400');
    expect(await scene.storeOn(back, { table }).tryAcquire('key', 'b', LONG)).toBe(BigInt(token) + 1n);
  });

  it('gives a token above those that it has seen, if the table was emptied and the clock set back', async () => {
    const table = scene.newTable();
    const store = await scene.store('mysql2 pool', { table });
    await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`UPDATE ${table} SET token = 9000000000000000000`);
    await store.tryAcquire('key', 'a', LONG);
    await scene.server.query(`TRUNCATE ${table}`);
    expect(await store.tryAcquire('key', 'a', LONG)).toBe(9000000000000000002n);
    await scene.server.query(`TRUNCATE ${table}`);
    const [token] = (await store.tryAcquireAll(['key', 'b'], 'a', LONG)) as bigint[];
    expect(token).toBe(9000000000000000003n);
  });

  it('gives several keys a token above that of each, if a clock was ahead', async () => {
    const table = scene.newTable();
    await (await scene.store('mysql2 pool', { table })).tryAcquire('b', 'a', LONG);
    await scene.server.query(`UPDATE ${table} SET token = 9000000000000000000, expires = 0`);
    const store = await scene.store('mariadb pool', { table });
    const tokens = await store.tryAcquireAll(['a', 'b', 'c'], 'me', LONG);
    expect(tokens).toEqual(Array(3).fill(9000000000000000001n));
  });

  it('works on a client with any options for results', async () => {
    const address = {
      host: '127.0.0.1',
      port: scene.server.port,
      user: 'test',
      password: 'test',
      database: 'test',
    };
    const { default: mariadb } = await import('mariadb');
    const clients = [
      mysql.createPool({
        ...address,
        rowsAsArray: true,
        typeCast: false,
        namedPlaceholders: true,
        supportBigNumbers: true,
      }),
      mysql.createPool({ ...address, nestTables: true, typeCast: () => 'cast', dateStrings: true } as never),
      mariadb.createPool({
        ...address,
        rowsAsArray: true,
        namedPlaceholders: true,
        insertIdAsNumber: true,
        checkNumberRange: true,
        metaAsArray: true,
      }),
      mariadb.createPool({
        ...address,
        nestTables: true,
        bigNumberStrings: true,
        supportBigNumbers: true,
        typeCast: () => 'cast',
      }),
    ];
    for (const client of clients) {
      onTestFinished(() => client.end());
      const store = scene.storeOn(client, { table: scene.newTable() });
      const token = await store.tryAcquire('key', 'me', LONG, 'info');
      expect(await store.inspect('key')).toMatchObject({ owner: 'me', token, info: 'info' });
      expect(await store.tryAcquire('key', 'you', LONG)).toBeUndefined();
      expect(await store.tryAcquireAll(['a', 'key'], 'you', LONG)).toBe(1);
      expect(await store.renew('key', 'me', LONG)).toBe(true);
      expect(await store.releaseAll(['a', 'key'], 'me')).toEqual([false, true]);
      const group = (await store.tryAcquireShared('key', 'r1', LONG))!;
      expect(group.token > token!).toBe(true);
      expect(await store.tryAcquireShared('key', 'r2', LONG)).toEqual(group);
      expect(await store.putOffReaders('key', LONG)).toBe(true);
      expect(await store.tryAcquireShared('key', 'r3', LONG)).toBeUndefined();
      for (const reader of ['r1', 'r2']) expect(await store.releaseShared('key', reader)).toBe(true);
      expect(await store.inspect('key')).toBeUndefined();
    }
  });

  it('waits for a locked row for about its time limit, leaves the connection free, and changes no setting', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('mysql2/promise pool', undefined, { max: 1 })) as Pool;
    await scene.storeOn(pool, { table }).tryAcquire('key', 'a', LONG);
    const locker = await connection();
    await locker.query('START TRANSACTION');
    await locker.query(`SELECT * FROM ${table} FOR UPDATE`);
    const store = scene.storeOn(pool, { table, timeout: 300 });
    const started = performance.now();
    await expect(store.renew('key', 'a', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    await expect(store.tryAcquireAll(['key', 'b'], 'a', LONG)).rejects.toMatchObject({
      code: 'ERR_LEASE_STORE',
    });
    // Neither statement waits any more, so the one connection of the pool can look.
    expect(await scene.storeOn(pool, { table }).inspect('key')).toMatchObject({ owner: 'a' });
    // The server's own limit is 50 s.
    expect(performance.now() - started).toBeLessThan(20_000);
    await locker.query('ROLLBACK');
    const [[row]] = await pool.query<RowDataPacket[]>('SELECT @@innodb_lock_wait_timeout AS seconds');
    expect(row).toEqual({ seconds: 50 });
  });

  it('fails within its time limit while the pool has no free connection, and then asks nothing', async () => {
    const table = scene.newTable();
    const pool = (await scene.connect('mysql2/promise pool', undefined, { max: 1 })) as Pool;
    await scene.storeOn(pool, { table }).inspect('key');
    const busy = await pool.getConnection();
    const store = scene.storeOn(pool, { table, timeout: 50 });
    await expect(store.tryAcquire('key', 'a', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    busy.release();
    expect(await scene.storeOn(pool, { table }).inspect('key')).toBeUndefined();
    expect(await scene.server.query(`SELECT name FROM ${table}`)).toEqual([]);
  });

  it.each(mysqlPools)(
    'leaves a server that became read-only, and is back on another: %s',
    async (library) => {
      const table = scene.newTable();
      await (await scene.store('mysql2 pool', { table })).inspect('key');
      const user = `app${mysqlPools.indexOf(library)}`;
      await scene.server.query(
        `CREATE USER ${user}@'127.0.0.1' IDENTIFIED BY 'app';
       GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON test.* TO ${user}@'127.0.0.1'`,
      );
      const proxy = await Proxy.to(scene.server.port);
      onTestFinished(() => proxy.close());
      const url = scene.urlFor({ user: `${user}:app`, port: proxy.port });
      const store = scene.storeOn(await scene.connect(library, url, { max: 1 }), { table });
      const sessions = (): Promise<{ id: number }[]> =>
        scene.server.query(`SELECT id FROM information_schema.processlist WHERE user = '${user}'`);
      expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
      const before = await sessions();
      await scene.server.query('SET GLOBAL read_only = 1');
      try {
        const error = await rejectionOf(store.renew('key', 'me', LONG));
        expect(error).toMatchObject({ code: 'ERR_LEASE_STORE', cause: { errno: 1290 } });
        expect((error as Error).message).toMatch(
          /^MySQL failed: The MariaDB server is running with the --read-only/,
        );
        for (const session of before) await expect.poll(sessions).not.toContainEqual(session);
      } finally {
        await scene.server.query('SET GLOBAL read_only = 0');
      }
      expect(await store.renew('key', 'me', LONG)).toBe(true);
    },
  );

  it('rejects once it is closed, and leaves the client open', async () => {
    const client = (await scene.connect('mysql2/promise pool')) as Pool;
    const store = scene.storeOn(client, { table: scene.newTable() });
    await store.close();
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    const [rows] = await client.query('SELECT 1 AS one');
    expect(rows).toEqual([{ one: 1 }]);
  });

  it('leaves no listener on a connection when it is closed', async () => {
    const clients = [await connection(), (await scene.connect('mariadb connection')) as MariadbConnection];
    for (const client of clients) {
      const before = client.listenerCount('error');
      const store = scene.storeOn(client, { table: scene.newTable() });
      expect(client.listenerCount('error')).toBe(before + 1);
      await store.close();
      expect(client.listenerCount('error')).toBe(before);
    }
  });

  it('refuses bad options', async () => {
    const client = await scene.connect();
    const { default: callbacks } = (await import('mariadb/callback')) as unknown as {
      default: { createPool(options: object): { end(): void } };
    };
    const pool = callbacks.createPool({
      host: '127.0.0.1',
      port: scene.server.port,
      user: 'test',
      password: 'test',
    });
    onTestFinished(() => pool.end());
    const bad: [object | undefined, string][] = [
      [undefined, 'ERR_INVALID_ARG_TYPE'],
      [{}, 'ERR_INVALID_ARG_TYPE'],
      [{ client: {} }, 'ERR_INVALID_ARG_TYPE'],
      [{ client: null }, 'ERR_INVALID_ARG_TYPE'],
      [{ pool: 'mysql://' }, 'ERR_INVALID_ARG_TYPE'],
      [{ pool }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, pool: client }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, table: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ client, table: '' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'a`b' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'a.b.c' }, 'ERR_OUT_OF_RANGE'],
      [{ client, table: 'x'.repeat(51) }, 'ERR_OUT_OF_RANGE'],
      [{ client, timeout: -1 }, 'ERR_OUT_OF_RANGE'],
      [{ client, drift: 2 }, 'ERR_OUT_OF_RANGE'],
      [{ client, clientModule: 5 }, 'ERR_INVALID_ARG_TYPE'],
    ];
    for (const [options, code] of bad) {
      expect(thrownBy(() => mysqlLeaseStore(options as never))).toMatchObject({ code });
    }
  });

  it('keeps a key from others for its minHold', async () => {
    const store = await scene.store('mysql2 pool', { table: scene.newTable() });
    const lease = await new LeaseManager({ store, ttl: LONG, minHold: 60_000 }).acquire('key');
    await lease.release();
    expect(await store.tryAcquire('key', 'other', LONG)).toBeUndefined();
  });
});
