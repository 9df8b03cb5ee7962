import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LeaseManager, LeaseStoreError } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers, temporaryFile, type SqliteDriver, type TestDatabase } from '../support/sqlite.js';

/** A wall clock that tests set, also backwards. */
class WallClock {
  time = 1_700_000_000_000;
  now(): number {
    return this.time;
  }
}

const nodeSqlite = sqliteDrivers.some(({ name }) => name === 'node:sqlite');

describe.each(sqliteDrivers)('the SQLite store on $name', ({ open }: SqliteDriver) => {
  let file: string;
  let remove: () => void;
  let opened: TestDatabase[];
  const database = (): TestDatabase => {
    const made = open(file);
    opened.push(made);
    return made;
  };

  beforeEach(() => {
    ({ file, remove } = temporaryFile());
    opened = [];
  });
  afterEach(() => {
    for (const made of opened) made.close();
    remove();
  });

  it('turns the file to WAL, and makes its tables beside those of the caller', async () => {
    const mine = database();
    mine.exec('CREATE TABLE mine (id INTEGER PRIMARY KEY)');
    const store = sqliteLeaseStore({ database: mine, table: 'locks' });
    await store.tryAcquire('key', 'a', 60_000);
    expect(mine.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    const tables = mine.prepare(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`).all();
    expect(tables.map(({ name }) => name)).toEqual(['locks', 'locks_clock', 'mine']);
  });

  it('keeps tables of different names apart', async () => {
    const shared = database();
    const one = sqliteLeaseStore({ database: shared, table: 'one' });
    const other = sqliteLeaseStore({ database: shared, table: 'other' });
    expect(await one.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    expect(await other.tryAcquire('key', 'b', 60_000)).toBeTypeOf('bigint');
  });

  it('refuses to work in the transaction of its caller, which stays open', async () => {
    const mine = database();
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

  it('tells a transaction of its caller also where the driver does not say', async () => {
    const mine = database();
    const silent = { prepare: (sql: string) => mine.prepare(sql), exec: (sql: string) => mine.exec(sql) };
    const store = sqliteLeaseStore({ database: silent });
    expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
    mine.exec('BEGIN');
    await expect(store.release('key', 'a')).rejects.toMatchObject({ code: 'ERR_LEASE_IN_TRANSACTION' });
    mine.exec('COMMIT');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('waits for others who have the database locked, without blocking the event loop', async () => {
    const [mine, theirs] = [database(), database()];
    // What it would sleep for, were it not asked to.
    mine.exec('PRAGMA busy_timeout = 30000');
    const store = sqliteLeaseStore({ database: mine, timeout: 30_000 });
    await store.tryAcquire('other', 'a', 60_000);
    theirs.exec('BEGIN IMMEDIATE');
    const acquiring = store.tryAcquire('key', 'a', 60_000);
    setTimeout(() => theirs.exec('COMMIT'), 50);
    expect(await acquiring).toBeTypeOf('bigint');
    expect(mine.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 30_000 });
  });

  it('wakes who waits through the same store when a lease is released', async () => {
    const store = sqliteLeaseStore({ database: database() });
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

  it('counts a database that stays locked as contention, and fails what must not be taken for an answer', async () => {
    const [mine, theirs] = [database(), database()];
    const store = sqliteLeaseStore({ database: mine, timeout: 40 });
    await store.tryAcquire('key', 'a', 60_000);
    theirs.exec('BEGIN IMMEDIATE');
    expect(await store.tryAcquire('free', 'a', 60_000)).toBeUndefined();
    await expect(store.renew('key', 'a', 60_000)).rejects.toThrow(/locked by others for 40 ms/);
    await expect(store.release('key', 'a')).rejects.toBeInstanceOf(LeaseStoreError);
    // Reading needs no lock.
    expect((await store.inspect('key'))?.owner).toBe('a');
    theirs.exec('COMMIT');
    expect(await store.release('key', 'a')).toBe(true);
  });

  it('has tokens rise after the table was emptied, and when the wall clock was set back meanwhile', async () => {
    const clock = new WallClock();
    const mine = database();
    const store = sqliteLeaseStore({ database: mine, clock });
    const first = (await store.tryAcquire('key', 'a', 60_000))!;
    expect(first).toBe(BigInt(clock.time) * 1_000_000n);
    mine.exec('DELETE FROM stripelock_leases');
    clock.time -= 3_600_000;
    const second = (await store.tryAcquire('key', 'b', 60_000))!;
    expect(second).toBe(first + 1n);
    const afterRestart = sqliteLeaseStore({ database: database(), clock });
    await store.release('key', 'b');
    expect(await afterRestart.tryAcquire('key', 'c', 60_000)).toBe(second + 1n);
  });

  it('has tokens rise after the file was lost, by the wall clock', async () => {
    const clock = new WallClock();
    const first = await sqliteLeaseStore({ database: database(), clock }).tryAcquire('key', 'a', 60_000);
    clock.time += 1;
    const second = await sqliteLeaseStore({ database: open(':memory:'), clock }).tryAcquire(
      'key',
      'a',
      60_000,
    );
    expect(second! > first!).toBe(true);
  });

  it('neither ends leases early nor keeps them for ever when the wall clock is set back', async () => {
    const clock = new WallClock();
    const store = sqliteLeaseStore({ database: database(), clock });
    await store.tryAcquire('key', 'a', 60_000);
    clock.time -= 3_600_000;
    expect(await store.renew('key', 'a', 60_000)).toBe(true);
    clock.time += 59_000;
    expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
    clock.time += 1100;
    expect(await store.tryAcquire('key', 'b', 60_000)).toBeTypeOf('bigint');
  });

  describe('while others look at it, the wall clock', () => {
    const HOUR = 3_600_000;
    let step = 0;

    beforeEach(() => {
      step = 0;
      const now = Date.now.bind(Date);
      vi.spyOn(Date, 'now').mockImplementation(() => now() + step);
    });
    afterEach(() => {
      vi.restoreAllMocks();
    });

    it('set back by an hour keeps a dead holder no longer than its time', async () => {
      const [mine, theirs] = [database(), database()].map((own) => sqliteLeaseStore({ database: own }));
      await mine!.tryAcquire('key', 'dead', 1000);
      const started = performance.now();
      step = -HOUR;
      // The one has seen it before, the other has not.
      for (const store of [mine!, theirs!]) {
        const lease = await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
        await lease.release();
      }
      expect(performance.now() - started).toBeGreaterThan(990);
    });

    it('set back and forth ends no lease early, also where it was renewed meanwhile', async () => {
      const [mine, theirs] = [database(), database()].map((own) => sqliteLeaseStore({ database: own }));
      await mine!.tryAcquire('key', 'a', 60_000);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = -HOUR;
      expect(await mine!.renew('key', 'a', 60_000)).toBe(true);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = 0;
      for (const store of [theirs!, mine!]) {
        expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
        expect(await store.renew('key', 'a', 60_000)).toBe(true);
      }
    });

    it('set forward ends no lease early for those who have looked before', async () => {
      const [mine, theirs] = [database(), database()].map((own) => sqliteLeaseStore({ database: own }));
      await mine!.tryAcquire('key', 'a', 60_000);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = HOUR;
      for (const store of [mine!, theirs!]) {
        expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
        expect((await store.inspect('key'))!.remaining).toBeGreaterThan(30_000);
      }
    });

    it('that is not set is followed to the millisecond, however often the row is written', async () => {
      const mine = database();
      const store = sqliteLeaseStore({ database: mine });
      for (let i = 0; i < 300; i++) {
        await store.tryAcquire('key', 'a', 60_000);
        await store.release('key', 'a');
      }
      const [row] = mine.prepare('SELECT time - wall AS ahead FROM stripelock_leases_clock').all();
      expect(row).toEqual({ ahead: 0 });
    });
  });

  it('keeps a lease for longer than its holder counts on, by the drift that is allowed', async () => {
    const clock = new WallClock();
    const store = sqliteLeaseStore({ database: database(), clock, drift: 0.1 });
    await store.tryAcquire('key', 'a', 1000);
    expect((await store.inspect('key'))?.remaining).toBeLessThanOrEqual(1000);
    clock.time += 1100;
    expect(await store.tryAcquire('key', 'b', 1000)).toBeUndefined();
    clock.time += 1;
    expect(await store.tryAcquire('key', 'b', 1000)).toBeTypeOf('bigint');
  });

  it('removes what has expired as other leases are taken', async () => {
    const clock = new WallClock();
    const mine = database();
    const store = sqliteLeaseStore({ database: mine, clock });
    for (let i = 0; i < 100; i++) await store.tryAcquire(`key ${i}`, 'a', 60_000);
    clock.time += 100_000;
    for (let i = 0; i < 25; i++) await store.tryAcquire('one key', 'a', 60_000);
    expect(mine.prepare('SELECT count(*) AS rows FROM stripelock_leases').get()).toEqual({ rows: 1 });
  });

  it.each(['tryAcquire', 'renew', 'release', 'inspect'] as const)(
    'makes its tables again where somebody has dropped them, by whatever comes first: %s',
    async (first) => {
      const [mine, theirs] = [database(), database()];
      const store = sqliteLeaseStore({ database: mine });
      await store.tryAcquire('key', 'a', 60_000);
      for (const dropped of ['stripelock_leases', 'stripelock_leases_clock']) {
        theirs.exec(`DROP TABLE ${dropped}`);
        await (first === 'inspect' ? store.inspect('key') : store[first]('key', 'a', 60_000));
        expect(await store.tryAcquire('key', 'a', 60_000)).toBeTypeOf('bigint');
        expect((await store.inspect('key'))?.owner).toBe('a');
        expect(await store.release('key', 'a')).toBe(true);
      }
    },
  );

  it('keeps keys apart that UTF-8 cannot', async () => {
    const store = sqliteLeaseStore({ database: database() });
    const keys = ['\ud800', '\ud801', '\ufffd', '\u{10ffff}', '\u{10ffff}00d8', 'a\0', 'a\0b', 'a'];
    for (const key of keys) expect(await store.tryAcquire(key, `owner ${key}`, 60_000)).toBeTypeOf('bigint');
    for (const key of keys) expect((await store.inspect(key))?.owner).toBe(`owner ${key}`);
  });

  it('fails where its table is not what it takes it for', async () => {
    const mine = database();
    mine.exec('CREATE TABLE stripelock_leases (something TEXT)');
    const manager = new LeaseManager({ store: sqliteLeaseStore({ database: mine }) });
    await expect(manager.tryAcquire('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
  });

  it('refuses bad options', () => {
    const mine = database();
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
        expect(() => sqliteLeaseStore({ path: file })).toThrow(/better-sqlite3 database as options.database/);
        return;
      }
      const store = sqliteLeaseStore({ path: file });
      const token = await store.tryAcquire('key', 'a', 60_000);
      expect((await sqliteLeaseStore({ database: database() }).inspect('key'))?.token).toBe(token);
      await store.close?.();
      await store.close?.();
      await expect(store.inspect('key')).rejects.toThrow(/was closed/);
    },
  );
});
