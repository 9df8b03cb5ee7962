import type { Connection, ResultSetHeader } from 'mysql2/promise';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type GrantDetails } from 'stripelock';
import { statementsOf } from '../../unbundled/stores/mysql/statements.js';
import { turns, watch } from '../support/waiting.js';
import { mysqlLibraries, MysqlScene, PATIENT, type MysqlStore } from './mysql-setup.js';
import { expectNoGroup, expectRisingTokens, expectTimeInFreeRow } from './readers.js';

const LONG = 600_000;
const NOT_PUT_OFF = '0'.repeat(16);
const CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

describe.each(mysqlLibraries)('a group of readers in MySQL, on %s', (library) => {
  const scene = new MysqlScene();

  async function begin(): Promise<[store: MysqlStore, table: string, row: () => Promise<unknown>]> {
    const table = scene.newTable();
    const row = async (): Promise<unknown> => {
      const [found] = (await scene.server.query(
        `SELECT CAST(owner AS CHAR) AS owner, CAST(info AS CHAR) AS info, abandoned, CAST(expires = 0 AS CHAR) AS freed
          FROM ${table} WHERE name = 'key'`,
      )) as unknown[];
      return found;
    };
    return [await scene.store(library, { table }), table, row];
  }

  it('is one row with all readers, which the last one frees', async () => {
    const [store, , row] = await begin();
    const { group: owner, token } = (await store.tryAcquireShared('key', 'a', LONG))!;
    expect(owner).toBe(`stripelock:readers:a:${token}`);
    const group = { owner, abandoned: null, freed: '0' };
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,` });
    await store.tryAcquireShared('key', 'b', LONG);
    await store.tryAcquireShared('key', 'a', LONG);
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,b,` });
    await store.renew('key', owner, 2 * LONG);
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,b,` });
    await store.releaseShared('key', 'a');
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,b,` });
    await store.releaseShared('key', 'b');
    expect(await row()).toEqual({ owner: '', info: null, abandoned: null, freed: '1' });
    // The row exists now, so that the group gets its name from another part of the statement.
    const again = (await store.tryAcquireShared('key', 'a', LONG))!;
    expect(again.group).toBe(`stripelock:readers:a:${again.token}`);
    expect(await store.inspect('key')).toMatchObject({ owner: again.group, token: again.token });
  });

  it('keeps the time in the free row, for one exclusive grant', async () => {
    const [store, , row] = await begin();
    await expectTimeInFreeRow(store, row, { owner: '', abandoned: null, freed: '1' }, /^\d{16}\+$/);
  });

  it('puts off readers until a time of the server’s clock', async () => {
    const [store, table] = await begin();
    await store.tryAcquireShared('key', 'a', LONG);
    expect(await store.putOffReaders('key', 60_000)).toBe(true);
    const [{ left }] = (await scene.server.query(
      `SELECT CAST(LEFT(info, 16) - ${CLOCK} AS CHAR) AS \`left\` FROM ${table}`,
    )) as [{ left: string }];
    expect(Number(left)).toBeGreaterThan(1_000_000);
    expect(Number(left)).toBeLessThanOrEqual(60_000_000);
    expect(await store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    await scene.server.query(`UPDATE ${table} SET info = INSERT(info, 1, 16, '${NOT_PUT_OFF}')`);
    expect(await store.tryAcquireShared('key', 'b', LONG)).toBeDefined();
  });

  it('lets a waiting writer of another client have the key when the last reader has left', async () => {
    const [store, table] = await begin();
    await store.tryAcquireShared('key', 'a', LONG);
    await store.tryAcquireShared('key', 'b', LONG);
    const other = await scene.store(library, { table });
    const manager = new LeaseManager({ store: other, ttl: LONG, backoff: PATIENT });
    const acquired = watch(manager.acquire('key', { timeout: 60_000 }));
    expect(await store.releaseShared('key', 'a')).toBe(true);
    await turns();
    expect(acquired.state).toBe('pending');
    expect(await store.releaseShared('key', 'b')).toBe(true);
    await (await acquired.promise).release();
    await manager.close();
  });

  it('keeps an abandonment, and gives its readers the answer of the first one', async () => {
    const [store, table, row] = await begin();
    await store.tryAcquire('key', 'gone', LONG);
    await scene.server.query(`UPDATE ${table} SET expires = ${CLOCK}`);
    for (const reader of ['a', 'b', 'a']) {
      const details: GrantDetails = {};
      await store.tryAcquireShared('key', reader, LONG, details);
      expect(details.abandoned).toEqual([true]);
    }
    expect(await row()).toMatchObject({ info: `${NOT_PUT_OFF}-,a,b,`, abandoned: 1 });
    for (const reader of ['a', 'b']) await store.releaseShared('key', reader);
    expect(await row()).toMatchObject({ owner: '', info: null, abandoned: 1, freed: '0' });
    const details: GrantDetails = {};
    await store.tryAcquire('key', 'next', LONG, undefined, details);
    expect(details.abandoned).toEqual([true]);
    await store.release('key', 'next');
    expect(await row()).toMatchObject({ owner: '', abandoned: null, freed: '1' });
  });

  it('is no group if another owner has the key, whatever its info', async () => {
    const [store] = await begin();
    await expectNoGroup(store, `${NOT_PUT_OFF}+,a,`);
  });
});

describe.skipIf(mysqlLibraries.length === 0)('readers in MySQL', () => {
  const scene = new MysqlScene();
  const connect = async (): Promise<Connection> =>
    (await scene.connect('mysql2/promise connection')) as Connection;

  it('have a token above those that their client has seen, if the table was emptied and the clock set back', async () => {
    const table = scene.newTable();
    const store = await scene.store('mysql2 pool', { table });
    await expectRisingTokens(store, table, (sql) => scene.server.query(sql));
  });

  it('that are refused learn when they are no longer put off, or when the lease expires', async () => {
    const table = scene.newTable();
    const client = await connect();
    const store = scene.storeOn(client, { table });
    const sql = statementsOf(table).acquireShared({ name: 'key', reader: 'b', length: 1000 }, 0n);
    for (const times of [
      [60_000, LONG],
      [LONG, 60_000],
    ] as const) {
      await store.tryAcquireShared('key', 'a', times[0]);
      await store.putOffReaders('key', times[1]);
      const [{ insertId }] = await client.query<ResultSetHeader>(sql);
      expect(insertId).toBeGreaterThan(1000);
      expect(insertId).toBeLessThanOrEqual(60_061);
      await store.releaseShared('key', 'a');
      const [{ insertId: left }] = await client.query<ResultSetHeader>(sql);
      expect(left).toBeGreaterThan(1000);
      expect(left).toBeLessThanOrEqual(times[1]);
      await store.tryAcquire('key', 'writer', LONG);
      await store.release('key', 'writer');
    }
  });

  it('that wait for a locked row join the group, or form one, by what they find then', async () => {
    const table = scene.newTable();
    const store = await scene.store('mysql2 pool', { table });
    const { group } = (await store.tryAcquireShared('key', 'a', LONG))!;
    for (const [change, isJoined] of [
      ['info = info', true],
      ['expires = 0', false],
    ] as const) {
      const locker = await connect();
      await locker.query('START TRANSACTION');
      await locker.query(`SELECT * FROM ${table} FOR UPDATE`);
      await locker.query(`UPDATE ${table} SET ${change}`);
      const asked = ['b', 'c'].map((reader) => store.tryAcquireShared('key', reader, LONG));
      const waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
      // The server answers from a cache. It renews the cache only if no client has read it for 100 ms.
      await expect
        .poll(() => scene.server.query(waiting), { timeout: 20_000, interval: 250 })
        .toHaveLength(2);
      await locker.query('COMMIT');
      const groups = (await Promise.all(asked)).map((grant) => grant!.group);
      expect(groups[0]).toBe(groups[1]);
      expect(groups[0] === group).toBe(isJoined);
      expect(await store.releaseShared('key', 'a')).toBe(isJoined);
      for (const reader of ['b', 'c']) expect(await store.releaseShared('key', reader)).toBe(true);
      expect(await store.inspect('key')).toBeUndefined();
      if (isJoined) await store.tryAcquireShared('key', 'a', LONG);
    }
  });

  it('are refused if the group has ended before they read its name', async () => {
    const table = scene.newTable();
    const { pool, reading, resume } = pausedBeforeReads(await scene.connect('mysql2/promise pool'));
    const store = scene.storeOn(pool, { table });
    await store.tryAcquireShared('key', 'a', LONG);
    const asked = store.tryAcquireShared('key', 'b', LONG);
    await reading;
    await scene.server.query(`UPDATE ${table} SET expires = 0`);
    resume();
    expect(await asked).toBeUndefined();
  });
});

/** The pool, whose SELECT statements on leases wait for `resume`. `reading` resolves when the first one waits. */
function pausedBeforeReads(client: object): { pool: object; reading: Promise<void>; resume: () => void } {
  let [resume, begun] = [(): void => undefined, (): void => undefined];
  const resumed = new Promise<void>((resolve) => (resume = resolve));
  const reading = new Promise<void>((resolve) => (begun = resolve));
  const paused = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(on, name) {
        const value: unknown = Reflect.get(on, name, on);
        if (typeof value !== 'function') return value;
        return async (...of: unknown[]): Promise<unknown> => {
          if (name === 'query' && /SELECT owner/.test((of[0] as { sql: string }).sql)) {
            begun();
            await resumed;
          }
          const result: unknown = await Reflect.apply(value, on, of);
          return name === 'getConnection' ? paused(result as object) : result;
        };
      },
    });
  return { pool: paused(client), reading, resume };
}
