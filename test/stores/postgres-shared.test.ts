import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type GrantDetails } from 'stripelock';
import { statementsOf, tableOf } from '../../unbundled/stores/postgres/statements.js';
import { watch } from '../support/waiting.js';
import { PATIENT, postgresLibraries, PostgresScene, type PostgresStore } from './postgres-setup.js';
import { expectNoGroup, expectPartialReleases, expectRisingTokens, expectTimeInFreeRow } from './readers.js';

const LONG = 600_000;
const NOT_PUT_OFF = '0'.repeat(19);

describe.each(postgresLibraries)('a group of readers in PostgreSQL, on %s', (library) => {
  const scene = new PostgresScene();

  async function begin(): Promise<[store: PostgresStore, table: string, row: () => Promise<unknown>]> {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(library), { table });
    const row = async (): Promise<unknown> => {
      const [found] = await scene.server.query(
        `SELECT owner, info, abandoned, waited, (expires = '-infinity')::text AS freed FROM ${table} WHERE key = 'key'`,
      );
      return found;
    };
    return [store, table, row];
  }

  it('is one row with all readers, which the last one frees', async () => {
    const [store, , row] = await begin();
    const { group: owner, token } = (await store.tryAcquireShared('key', 'a', LONG))!;
    expect(owner).toBe(`stripelock:readers:a:${token}`);
    const group = { owner, abandoned: null, waited: false, freed: 'false' };
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,` });
    await store.tryAcquireShared('key', 'b', LONG);
    await store.tryAcquireShared('key', 'a', LONG);
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,b,` });
    await store.renew('key', owner, 2 * LONG);
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,a,b,` });
    await store.releaseShared('key', 'a');
    expect(await row()).toEqual({ ...group, info: `${NOT_PUT_OFF}+,b,` });
    await store.releaseShared('key', 'b');
    expect(await row()).toEqual({ owner: '', info: null, abandoned: null, waited: false, freed: 'true' });
  });

  it('reports of a release whether other readers still hold the key', async () => {
    const [store] = await begin();
    await expectPartialReleases(store);
  });

  it('puts off readers until a time of the server’s clock', async () => {
    const [store, table] = await begin();
    await store.tryAcquireShared('key', 'a', LONG);
    expect(await store.putOffReaders('key', 60_000)).toBe(true);
    const [{ left }] = (await scene.server.query(
      `SELECT (left(info, 19)::bigint / 1e9 - extract(epoch FROM clock_timestamp()))::float8 AS left FROM ${table}`,
    )) as [{ left: number }];
    expect(left).toBeGreaterThan(1);
    expect(left).toBeLessThanOrEqual(60.001);
    expect(await store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    await scene.server.query(`UPDATE ${table} SET info = overlay(info PLACING '${NOT_PUT_OFF}' FROM 1)`);
    expect(await store.tryAcquireShared('key', 'b', LONG)).toBeDefined();
  });

  it('keeps the time in the free row, for one exclusive grant', async () => {
    const [store, , row] = await begin();
    const free = { owner: '', abandoned: null, waited: false, freed: 'true' };
    await expectTimeInFreeRow(store, row, free, /^\d{19}\+$/);
  });

  it('wakes a waiting writer of another client when the last reader has left', async () => {
    const [store, table, row] = await begin();
    await store.tryAcquireShared('key', 'a', LONG);
    await store.tryAcquireShared('key', 'b', LONG);
    const other = scene.storeOn(await scene.connect(library), { table });
    const manager = new LeaseManager({ store: other, ttl: LONG, backoff: PATIENT });
    const acquired = watch(manager.acquire('key', { timeout: 60_000 }));
    await expect.poll(row, { timeout: 20_000 }).toMatchObject({ waited: true });
    expect(await store.releaseShared('key', 'a')).toBe(true);
    expect(await row()).toMatchObject({ waited: true, info: expect.stringMatching(/\+,b,$/) as string });
    expect(acquired.state).toBe('pending');
    expect(await store.releaseShared('key', 'b')).toBe(true);
    await (await acquired.promise).release();
    await manager.close();
  });

  it('wakes a reader that was put off after the last reader had left, when the next writer has released', async () => {
    const [store, table, row] = await begin();
    const other = scene.storeOn(await scene.connect(library), { table });
    let woken = 0;
    other.onRelease('key', () => woken++);
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    await store.tryAcquireShared('key', 'a', LONG);
    await store.putOffReaders('key', LONG);
    await store.releaseShared('key', 'a');
    expect(await other.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    expect(await row()).toMatchObject({ owner: '', waited: true });
    await store.tryAcquire('key', 'writer', LONG);
    const before = woken;
    await store.release('key', 'writer');
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(before);
    expect(await other.tryAcquireShared('key', 'b', LONG)).toBeDefined();
    expect(await row()).toMatchObject({ waited: false });
  });

  it('wakes the waiting readers of all clients when a writer has released, and they join each other', async () => {
    const [store, table] = await begin();
    await store.tryAcquire('key', 'writer', LONG);
    const joined: Promise<{ group: string }>[] = [];
    for (const reader of ['a', 'b', 'c']) {
      const other = scene.storeOn(await scene.connect(library), { table });
      let woken = 0;
      other.onRelease('key', () => woken++);
      await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
      expect(await other.tryAcquireShared('key', reader, LONG)).toBeUndefined();
      const before = woken;
      joined.push(
        expect
          .poll(() => woken, { timeout: 20_000 })
          .toBeGreaterThan(before)
          .then(async () => (await other.tryAcquireShared('key', reader, LONG))!),
      );
    }
    await store.release('key', 'writer');
    const groups = (await Promise.all(joined)).map(({ group }) => group);
    expect(new Set(groups).size).toBe(1);
  });

  it('notifies waiting clients only of the release of the last reader', async () => {
    const [store, table] = await begin();
    const other = scene.storeOn(await scene.connect(library), { table });
    const woken = { key: 0, last: 0 };
    for (const key of ['key', 'last'] as const) {
      other.onRelease(key, () => woken[key]++);
      await expect.poll(() => woken[key], { timeout: 20_000 }).toBeGreaterThan(0);
    }
    for (const reader of ['a', 'b']) await store.tryAcquireShared('key', reader, LONG);
    await store.tryAcquire('last', 'writer', LONG);
    for (const key of ['key', 'last']) expect(await other.tryAcquire(key, 'other', LONG)).toBeUndefined();
    const before = { ...woken };
    expect(await store.releaseShared('key', 'a')).toBe(true);
    // Notifications arrive in order.
    await store.release('last', 'writer');
    await expect.poll(() => woken.last, { timeout: 20_000 }).toBeGreaterThan(before.last);
    expect(woken.key).toBe(before.key);
    expect(await store.releaseShared('key', 'b')).toBe(true);
    await expect.poll(() => woken.key, { timeout: 20_000 }).toBeGreaterThan(before.key);
  });

  it('keeps an abandonment, and gives its readers the answer of the first one', async () => {
    const [store, table, row] = await begin();
    await store.tryAcquire('key', 'gone', LONG);
    await scene.server.query(`UPDATE ${table} SET expires = now(), waited = true`);
    for (const reader of ['a', 'b']) {
      const details: GrantDetails = {};
      await store.tryAcquireShared('key', reader, LONG, details);
      expect(details.abandoned).toEqual([true]);
    }
    // The waiters of the earlier lease ask again when it expires.
    expect(await row()).toMatchObject({ info: `${NOT_PUT_OFF}-,a,b,`, abandoned: true, waited: false });
    for (const reader of ['a', 'b']) await store.releaseShared('key', reader);
    expect(await row()).toMatchObject({ owner: '', info: null, abandoned: true, freed: 'false' });
    const details: GrantDetails = {};
    await store.tryAcquire('key', 'next', LONG, undefined, details);
    expect(details.abandoned).toEqual([true]);
    await store.release('key', 'next');
    expect(await row()).toMatchObject({ owner: '', info: null, abandoned: null, freed: 'true' });
  });

  it('is no group if another owner has the key, whatever its info', async () => {
    const [store] = await begin();
    await expectNoGroup(store, `${NOT_PUT_OFF}+,a,`);
  });
});

describe.skipIf(postgresLibraries.length === 0)('readers in PostgreSQL', () => {
  const scene = new PostgresScene();

  it('have a token above those that their client has seen, if the table was emptied and the clock set back', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    await expectRisingTokens(store, table, (sql) => scene.server.query(sql));
  });

  it('that are refused learn when they are no longer put off, or when the lease expires', async () => {
    const table = scene.newTable();
    const client = (await scene.connect('pg-client')) as pg.Client;
    const store = scene.storeOn(client, { table });
    const { text } = statementsOf(tableOf(table)).acquireShared;
    for (const times of [
      [60_000, LONG],
      [LONG, 60_000],
    ] as const) {
      await store.tryAcquireShared('key', 'a', times[0]);
      await store.putOffReaders('key', times[1]);
      const { rows } = await client.query<{ token: null; remaining: string; marked: string }>(text, [
        'key',
        'b',
        '1000',
        '0',
        '1s',
        'true',
      ]);
      expect(rows).toMatchObject([{ token: null, marked: 'true' }]);
      expect(Number(rows[0]!.remaining)).toBeGreaterThan(1000);
      expect(Number(rows[0]!.remaining)).toBeLessThanOrEqual(60_061);
      await store.releaseShared('key', 'a');
      const left = await client.query<{ remaining: string }>(text, ['key', 'b', '1000', '0', '1s', 'true']);
      expect(Number(left.rows[0]!.remaining)).toBeGreaterThan(1000);
      expect(Number(left.rows[0]!.remaining)).toBeLessThanOrEqual(times[1]);
      await store.tryAcquire('key', 'writer', LONG);
      await store.release('key', 'writer');
    }
  });

  it('that wait for a locked row join the group, or form one, by what they find then', async () => {
    const table = scene.newTable();
    const store = scene.storeOn(await scene.connect(), { table });
    const { group } = (await store.tryAcquireShared('key', 'a', LONG))!;
    for (const [change, isJoined] of [
      [`token = token`, true],
      [`expires = now()`, false],
    ] as const) {
      const locker = (await scene.connect('pg-client')) as pg.Client;
      await locker.query(`BEGIN; UPDATE ${table} SET ${change}`);
      const asked = ['b', 'c'].map((reader) => store.tryAcquireShared('key', reader, LONG));
      const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${table}%'`;
      await expect.poll(() => scene.server.query(waiting), { timeout: 20_000 }).toHaveLength(2);
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
});
