import { copyFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { LeaseManager, LeaseStoreError, type GrantDetails } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';
import { SqliteScene, WallClock } from './sqlite-setup.js';

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

/** Another file under the same name. */
function copyOver(file: string): void {
  copyFileSync(file, `${file}.copy`);
  renameSync(`${file}.copy`, file);
}

const nodeSqlite = sqliteDrivers.some(({ name }) => name === 'node:sqlite');

describe.each(sqliteDrivers)('the SQLite store on $name', (driver) => {
  const sqlite = new SqliteScene(driver);

  it('switches the file to WAL, and creates its tables beside the caller’s', async () => {
    const mine = sqlite.open();
    mine.exec('CREATE TABLE mine (id INTEGER PRIMARY KEY)');
    const store = sqliteLeaseStore({ database: mine, table: 'locks' });
    await store.tryAcquire('key', 'a', 60_000);
    expect(mine.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    const tables = mine.prepare(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`).all();
    expect(tables.map(({ name }) => name)).toEqual(['locks', 'locks_clock', 'locks_waiters', 'mine']);
  });

  it('lists more leases than it reads at once, and lets other events come in between', async () => {
    const store = sqliteLeaseStore({ database: sqlite.open() });
    const keys = Array.from({ length: 2500 }, (_, i) => `key ${String(i).padStart(4, '0')}`);
    for (let i = 0; i < keys.length; i += 500)
      await store.tryAcquireAll(keys.slice(i, i + 500), 'a', 600_000);
    let turns = 0;
    const turn = (): unknown => setImmediate(() => turns++ < 1000 && turn());
    turn();
    expect((await store.list({ limit: 10_000 })).map(({ key }) => key)).toEqual(keys);
    expect(turns).toBeGreaterThanOrEqual(2);
    expect((await store.list()).map(({ key }) => key)).toEqual(keys.slice(0, 1000));
    expect((await store.list({ limit: 1001, prefix: 'key' })).at(-1)!.key).toBe(keys[1000]);
  });

  it('refuses to list a file in UTF-16, in which keys have another order', async () => {
    const database = sqlite.open();
    database.exec("PRAGMA encoding = 'UTF-16'");
    const store = sqliteLeaseStore({ database });
    expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    expect(codeOf(await rejectionOf(store.list()))).toBe('ERR_LEASE_LIST');
  });

  it('lists no key that is reserved for a waiter', async () => {
    const store = sqliteLeaseStore({ database: sqlite.open() });
    const waiting = new LeaseManager({ store: sqliteLeaseStore({ database: sqlite.open() }) });
    await store.tryAcquire('key', 'a', 60_000);
    const lease = waiting.acquire('key', { timeout: 60_000 });
    const waiters = (): unknown => sqlite.open().prepare('SELECT * FROM stripelock_leases_waiters').get();
    await expect.poll(waiters).toBeDefined();
    await store.release('key', 'a');
    expect(await store.list()).toEqual([]);
    await (await lease).release();
  });

  it.each(['order', 'Group', 'select'])(
    'has a table with a name that is a keyword of SQL: %s',
    async (table) => {
      const store = sqliteLeaseStore({ database: sqlite.open(), table });
      const other = sqliteLeaseStore({ database: sqlite.open(), table });
      const token = await store.tryAcquire('key', 'a', 60_000);
      expect(token).toBeTypeOf('bigint');
      expect(await other.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      expect(await store.release('key', 'a', token)).toBe(true);
    },
  );

  it('refuses a table whose name SQLite keeps to itself', () => {
    for (const table of ['sqlite_leases', 'SQLITE_leases']) {
      const make = (): unknown => sqliteLeaseStore({ database: sqlite.open(), table });
      expect(thrownBy(make)).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    }
  });

  it.each([
    ['deleted', (file: string): void => rmSync(file)],
    ['moved', (file: string): void => renameSync(file, `${file}.moved`)],
    ['replaced', (file: string): void => copyOver(file)],
  ])('reports that its file was %s, and loses its leases at their next renewal', async (_what, change) => {
    const store = sqliteLeaseStore({ database: sqlite.open() });
    const manager = new LeaseManager({ store, ttl: 60_000, renew: false });
    const lease = await manager.acquire('key');
    change(sqlite.file);
    expect(await lease.renew()).toBe(false);
    expect(lease.held).toBe(false);
    // An acquisition looks at the file at most every 10 ms.
    await expect
      .poll(() => store.tryAcquire('third', 'me', 60_000).then(String, codeOf), { timeout: 20_000 })
      .toBe('ERR_SQLITE_FILE');
    expect(await rejectionOf(manager.acquire('fourth', { timeout: 20_000 }))).toMatchObject({
      code: 'ERR_SQLITE_FILE',
      message: expect.stringContaining(sqlite.file) as string,
    });
    const next = sqliteLeaseStore({ database: sqlite.open() });
    expect(await next.tryAcquire('fifth', 'you', 60_000)).toBeTypeOf('bigint');
  });

  it('keeps tables of different names apart', async () => {
    const shared = sqlite.open();
    const one = sqliteLeaseStore({ database: shared, table: 'one' });
    const other = sqliteLeaseStore({ database: shared, table: 'other' });
    expect(await one.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    expect(await other.tryAcquire('key', 'b', 60_000)).toBeTypeOf('bigint');
  });

  it('refuses to work in a transaction of its caller, which stays open', async () => {
    const mine = sqlite.open();
    const store = sqliteLeaseStore({ database: mine });
    const refused = { name: 'LockError', code: 'ERR_LEASE_IN_TRANSACTION' };
    mine.exec('BEGIN');
    await expect(store.tryAcquire('key', 'a', 60_000)).rejects.toMatchObject(refused);
    mine.exec('COMMIT');
    expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    mine.exec('BEGIN');
    await expect(store.tryAcquire('key', 'b', 60_000)).rejects.toMatchObject(refused);
    await expect(store.renew('key', 'a', 60_000)).rejects.toMatchObject(refused);
    await expect(store.release('key', 'a')).rejects.toMatchObject(refused);
    await expect(store.inspect('key')).rejects.toMatchObject(refused);
    mine.exec('COMMIT');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('fails a waiting acquisition at once if the database is read-only', async () => {
    const mine = sqlite.open();
    const manager = new LeaseManager({ store: sqliteLeaseStore({ database: mine }) });
    await (await manager.acquire('key')).release();
    mine.exec('PRAGMA query_only = ON');
    const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED', name: 'LockError' });
  });

  it('detects a transaction of its caller even if the driver does not report it', async () => {
    const mine = sqlite.open();
    const silent = { prepare: (sql: string) => mine.prepare(sql), exec: (sql: string) => mine.exec(sql) };
    const store = sqliteLeaseStore({ database: silent });
    expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    mine.exec('BEGIN');
    await expect(store.release('key', 'a')).rejects.toMatchObject({ code: 'ERR_LEASE_IN_TRANSACTION' });
    mine.exec('COMMIT');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('waits while another connection has locked the database, without blocking the event loop', async () => {
    const [mine, theirs] = [sqlite.open(), sqlite.open()];
    // How long it would sleep if the store did not prevent that.
    mine.exec('PRAGMA busy_timeout = 30000');
    const store = sqliteLeaseStore({ database: mine, timeout: 30_000 });
    await store.tryAcquire('other', 'a', 60_000);
    theirs.exec('BEGIN IMMEDIATE');
    const acquiring = store.tryAcquire('key', 'a', 60_000);
    setTimeout(() => theirs.exec('COMMIT'), 50);
    expect(await acquiring).toBeTypeOf('bigint');
    expect(mine.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 30_000 });
  });

  it('wakes a waiter in the same store when a lease is released', async () => {
    const store = sqliteLeaseStore({ database: sqlite.open() });
    const backoff = { initial: 50_000, max: 50_000, jitter: 0 };
    const [one, other] = [new LeaseManager({ store }), new LeaseManager({ store, backoff })];
    const held = await one.acquire('key');
    const waiting = other.acquire('key', { timeout: 40_000 });
    // Its first attempt has been refused by then.
    await store.inspect('key');
    await new Promise((resolve) => setImmediate(resolve));
    const released = performance.now();
    await held.release();
    const lease = await waiting;
    expect(performance.now() - released).toBeLessThan(10_000);
    await lease.release();
  });

  it('counts a database that stays locked as contention, and fails operations that need an answer', async () => {
    const [mine, theirs] = [sqlite.open(), sqlite.open()];
    const store = sqliteLeaseStore({ database: mine, timeout: 40 });
    await store.tryAcquire('key', 'a', 60_000);
    theirs.exec('BEGIN IMMEDIATE');
    expect(await store.tryAcquire('free', 'a', 60_000)).toBeUndefined();
    await expect(store.renew('key', 'a', 60_000)).rejects.toThrow(/within 40 ms: .*locked/);
    await expect(store.release('key', 'a')).rejects.toBeInstanceOf(LeaseStoreError);
    // Reading needs no lock.
    expect((await store.inspect('key'))?.owner).toBe('a');
    theirs.exec('COMMIT');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('adds a column to a table of version 1.0', async () => {
    const mine = sqlite.open();
    mine.exec(
      `CREATE TABLE stripelock_leases (
         key TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, expires INTEGER NOT NULL, info TEXT
       ) WITHOUT ROWID;
       INSERT INTO stripelock_leases VALUES ('held', 'a', 5, 4000000000000, NULL), ('expired', 'a', 6, 0, NULL)`,
    );
    const store = sqliteLeaseStore({ database: mine });
    expect(await store.tryAcquire('held', 'b', 60_000)).toBeUndefined();
    expect(await store.release('held', 'a', 5n)).toBe(true);
    const details: GrantDetails = {};
    expect(await store.tryAcquire('expired', 'b', 60_000, undefined, details)).toBeTypeOf('bigint');
    // Version 1.0 has not written how it ended.
    expect(details.abandoned).toEqual([false]);
    const again = sqliteLeaseStore({ database: mine });
    expect((await again.inspect('expired'))?.owner).toBe('b');
  });

  it('passes on that a key was abandoned to the store for which it is reserved', async () => {
    const [store, waiting] = [
      sqliteLeaseStore({ database: sqlite.open() }),
      sqliteLeaseStore({ database: sqlite.open() }),
    ];
    const token = await store.tryAcquire('key', 'gone', 60_000);
    const manager = new LeaseManager({ store: waiting, backoff: { initial: 20_000, max: 20_000 } });
    const lease = manager.acquire('key', { timeout: 60_000 });
    const records = sqlite.open().prepare('SELECT 1 FROM stripelock_leases_waiters');
    await expect.poll(() => records.all().length, { timeout: 30_000 }).toBe(1);
    expect(await store.takeBack('key', 'gone', token!, true)).toBe(true);
    expect((await lease).abandoned).toBe(true);
    await manager.close();
  });

  it('removes leases that have expired a day ago as other leases are taken', async () => {
    const clock = new WallClock();
    const mine = sqlite.open();
    const store = sqliteLeaseStore({ database: mine, clock });
    for (let i = 0; i < 100; i++) await store.tryAcquire(`key ${i}`, 'a', 60_000);
    clock.time += 100_000 + 86_400_000;
    for (let i = 0; i < 48; i++) await store.tryAcquire('one key', 'a', 60_000);
    expect(mine.prepare('SELECT count(*) AS rows FROM stripelock_leases').get()).toEqual({ rows: 1 });
  });

  it('removes them even if each process takes only one lease', async () => {
    const clock = new WallClock();
    const mine = sqlite.open();
    const store = sqliteLeaseStore({ database: mine, clock });
    for (let i = 0; i < 100; i++) await store.tryAcquire(`key ${i}`, 'a', 60_000);
    clock.time += 100_000 + 86_400_000;
    for (let i = 0; i < 2; i++) {
      await sqliteLeaseStore({ database: mine, clock }).tryAcquire('one key', 'a', 60_000);
    }
    expect(mine.prepare('SELECT count(*) AS rows FROM stripelock_leases').get()).toEqual({ rows: 1 });
  });

  it.each(['tryAcquire', 'renew', 'release', 'inspect'] as const)(
    'creates its tables again after somebody has dropped them, with any first operation: %s',
    async (first) => {
      const [mine, theirs] = [sqlite.open(), sqlite.open()];
      const store = sqliteLeaseStore({ database: mine });
      await store.tryAcquire('key', 'a', 60_000);
      for (const dropped of ['', '_clock', '_waiters'].map((end) => `stripelock_leases${end}`)) {
        theirs.exec(`DROP TABLE ${dropped}`);
        if (first === 'inspect') await store.inspect('key');
        else if (first === 'release') await store.release('key', 'a');
        else await store[first]('key', 'a', 60_000);
        expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
        expect((await store.inspect('key'))?.owner).toBe('a');
        expect(await store.release('key', 'a')).toBe(true);
      }
    },
  );

  it('keeps keys apart that UTF-8 cannot distinguish', async () => {
    const store = sqliteLeaseStore({ database: sqlite.open() });
    const keys = ['\ud800', '\ud801', '\ufffd', '\u{10ffff}', '\u{10ffff}00d8', 'a\0', 'a\0b', 'a'];
    for (const key of keys) expect(await store.tryAcquire(key, `owner ${key}`, 60_000)).toBeTypeOf('bigint');
    for (const key of keys) expect((await store.inspect(key))?.owner).toBe(`owner ${key}`);
  });

  it('fails if its table has another layout', async () => {
    const mine = sqlite.open();
    mine.exec('CREATE TABLE stripelock_leases (something TEXT)');
    const manager = new LeaseManager({ store: sqliteLeaseStore({ database: mine }) });
    await expect(manager.tryAcquire('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
  });

  it('refuses bad options', () => {
    const mine = sqlite.open();
    const codeOf = (options: unknown): unknown => {
      try {
        return sqliteLeaseStore(options as never);
      } catch (error) {
        return (error as { code: unknown }).code;
      }
    };
    for (const options of [
      undefined,
      null,
      {},
      { database: {} },
      { database: 5 },
      { path: 5 },
      { database: mine, path: 'x' },
    ]) {
      expect(codeOf(options)).toBe('ERR_INVALID_ARG_TYPE');
    }
    expect(codeOf({ database: mine, table: 'leases; DROP TABLE users' })).toBe('ERR_OUT_OF_RANGE');
    expect(codeOf({ database: mine, table: '' })).toBe('ERR_OUT_OF_RANGE');
    expect(codeOf({ database: mine, timeout: -1 })).toBe('ERR_OUT_OF_RANGE');
    expect(codeOf({ database: mine, drift: 2 })).toBe('ERR_OUT_OF_RANGE');
    expect(codeOf({ database: mine, clock: 5 })).toBe('ERR_INVALID_ARG_TYPE');
    expect(codeOf({ path: '' })).toBe('ERR_OUT_OF_RANGE');
  });

  it(
    nodeSqlite
      ? 'opens a file by itself, and closes it'
      : 'says what to do where it is to open a file and this Node has no node:sqlite',
    async () => {
      if (!nodeSqlite) {
        expect(() => sqliteLeaseStore({ path: sqlite.file })).toThrow(
          /better-sqlite3 database as options.database/,
        );
        return;
      }
      const store = sqliteLeaseStore({ path: sqlite.file });
      const token = await store.tryAcquire('key', 'a', 60_000);
      expect((await sqliteLeaseStore({ database: sqlite.open() }).inspect('key'))?.token).toBe(token);
      await store.close();
      await store.close();
      await expect(store.inspect('key')).rejects.toThrow(/was closed/);
    },
  );

  it('prepares a file that another process has locked as soon as it is unlocked', async () => {
    const [mine, theirs] = [sqlite.open(), sqlite.open()];
    // Locked like by a process that is opening or closing the file.
    theirs.exec('CREATE TABLE theirs (id INTEGER PRIMARY KEY)');
    theirs.exec('BEGIN EXCLUSIVE');
    const opened = (timeout: number): ReturnType<typeof sqliteLeaseStore> =>
      sqliteLeaseStore(
        driver.name === 'node:sqlite' ? { path: sqlite.file, timeout } : { database: mine, timeout },
      );
    const refused = opened(40);
    await expect(refused.release('key', 'a')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    await refused.close();
    const store = opened(30_000);
    const acquiring = store.tryAcquire('key', 'a', 60_000);
    setTimeout(() => theirs.exec('COMMIT'), 50);
    expect(await acquiring).toBeTypeOf('bigint');
    await store.close();
  });
});

it.skipIf(!nodeSqlite)(
  'a path in a folder that is missing, or that is a folder, is named by the error',
  () => {
    const { file, remove } = temporaryFile();
    const missing = path.join(file, 'missing', 'leases.db');
    expect(thrownBy(() => sqliteLeaseStore({ path: missing }))).toMatchObject({
      code: 'ERR_SQLITE_FILE',
      message: `cannot open the SQLite file ${missing}: the folder ${path.dirname(missing)} does not exist`,
    });
    const folder = path.dirname(file);
    expect(thrownBy(() => sqliteLeaseStore({ path: folder }))).toMatchObject({
      code: 'ERR_SQLITE_FILE',
      message: `cannot open the SQLite file ${folder}: unable to open database file`,
    });
    remove();
  },
);
