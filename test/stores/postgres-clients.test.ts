import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { postgresLeaseStore, type PostgresQueryClient } from 'stripelock/postgres';
import { openPgLite } from '../support/postgres-clients.mjs';
import { hasPostgres } from '../support/postgres-server.mjs';
import { PATIENT, PostgresScene } from './postgres-setup.js';

// Clients that the store knows only by their function `query`.

const LONG = 600_000;

type Query = PostgresQueryClient['query'];
interface Result {
  readonly rows: Record<string, unknown>[];
}

describe.runIf(hasPostgres)('the PostgreSQL store on a client with query(text, values)', () => {
  const scene = new PostgresScene();

  /** The query of a pool of `pg`. */
  async function poolQuery(): Promise<(text: string, values: unknown[]) => Promise<Result>> {
    const pool = (await scene.connect()) as pg.Pool;
    return (text, values) => pool.query(text, values);
  }

  it('accepts a list of rows, and an object that has one', async () => {
    const query = await poolQuery();
    const table = scene.newTable();
    const listing = scene.storeOn(
      { query: async (...args: Parameters<Query>) => (await query(...args)).rows },
      { table },
    );
    const whole = scene.storeOn({ query }, { table });
    const token = await listing.tryAcquire('key', 'me', LONG, 'info');
    expect(token).toBeTypeOf('bigint');
    expect(await whole.inspect('key')).toMatchObject({ owner: 'me', token, info: 'info' });
    expect(await listing.tryAcquireAll(['other', 'key'], 'you', LONG)).toBe(1);
    expect(await whole.renewAll(['key', 'other'], 'me', LONG)).toEqual([true, false]);
    expect(await listing.keep('key', 'me', LONG, token!)).toBe(true);
    expect(await listing.releaseAll(['key', 'other'], 'stripelock:kept:me')).toEqual([true, false]);
  });

  it('passes on texts and null alone, in one statement that begins with WITH, SELECT or DO', async () => {
    const query = await poolQuery();
    const asked: { text: string; values: readonly unknown[] }[] = [];
    const store = scene.storeOn(
      {
        query(text: string, values: unknown[]) {
          asked.push({ text, values });
          return query(text, values);
        },
      },
      { table: scene.newTable() },
    );
    const token = await store.tryAcquire('key', 'me', LONG);
    await store.tryAcquireAll(['key', 'b'], 'me', LONG);
    await store.renew('key', 'me', LONG);
    await store.renewAll(['key', 'b'], 'me', LONG, 'info');
    await store.inspect('key');
    await store.release('key', 'me', token);
    await store.releaseAll(['key', 'b'], 'me');
    for (const { text, values } of asked) {
      expect(text).toMatch(/^(?:WITH|SELECT|DO) /);
      expect(values.filter((value) => value !== null && typeof value !== 'string')).toEqual([]);
    }
  });

  /** Changes that a client may make to the rows of a result, and the part of the error that describes each. */
  const unreadable: [how: string, change: (rows: Record<string, unknown>[]) => unknown, message: RegExp][] = [
    ['a count of rows', (rows) => rows.length, /no rows/],
    ['nothing', () => undefined, /no rows/],
    ['rows and a count, as TypeORM does for an UPDATE', (rows) => [rows, rows.length], /no object/],
    ['rows as lists', (rows) => rows.map((row) => Object.values(row)), /no object/],
    [
      'rows with other names of columns',
      (rows) => rows.map((row) => renamed(row)),
      /no column (?:token|open)/,
    ],
    ['numbers instead of texts', (rows) => rows.map((row) => mapped(row, Number)), /a number as column/],
    [
      'objects instead of texts',
      (rows) => rows.map((row) => mapped(row, Object)),
      /a object as column|an object/,
    ],
  ];
  const renamed = (row: object): object =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name.toUpperCase(), value as unknown]));
  const mapped = (row: object, change: (value: unknown) => unknown): object =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [name, value === null ? null : change(value)]),
    );

  it.each(unreadable)('refuses %s at once, also while an acquisition waits', async (_, change, message) => {
    const query = await poolQuery();
    const table = scene.newTable();
    const good = scene.storeOn({ query }, { table });
    await good.tryAcquire('key', 'other', LONG);
    const store = scene.storeOn(
      { query: async (...args: Parameters<Query>) => change((await query(...args)).rows) },
      { table },
    );
    const refused = { code: 'ERR_LEASE_CLIENT_RESULT', message: expect.stringMatching(message) as string };
    await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject(refused);
    await expect(store.tryAcquireAll(['a', 'b'], 'me', LONG)).rejects.toMatchObject(refused);
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_CLIENT_RESULT' });
    const manager = new LeaseManager({ store });
    await expect(manager.acquire('key', { timeout: LONG })).rejects.toMatchObject(refused);
    expect(await good.inspect('key')).toMatchObject({ owner: 'other' });
  });

  it('refuses a client that is bound to a transaction, also where the tables are missing', async () => {
    const client = (await scene.connect('pg-client')) as pg.Client;
    const query: Query = (text, values) => client.query(text, values);
    const refused = { code: 'ERR_LEASE_IN_TRANSACTION' };
    for (const table of [scene.newTable(), scene.newTable()]) {
      await client.query('BEGIN');
      const store = scene.storeOn({ query }, { table });
      await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject(refused);
      await client.query('ROLLBACK');
      const token = await store.tryAcquire('key', 'me', LONG);
      await client.query('BEGIN');
      await expect(store.renew('key', 'me', LONG)).rejects.toMatchObject(refused);
      await client.query('ROLLBACK');
      await client.query('BEGIN');
      await expect(store.release('key', 'me', token)).rejects.toMatchObject(refused);
      await client.query('ROLLBACK');
      expect(await store.release('key', 'me', token)).toBe(true);
    }
  });

  it('wakes its waiters after a release by a store that listens, and the waiters of that store', async () => {
    const table = scene.newTable();
    const options = { ttl: LONG, backoff: PATIENT };
    const polling = new LeaseManager({
      ...options,
      store: scene.storeOn({ query: await poolQuery() }, { table }),
    });
    const listening = new LeaseManager({
      ...options,
      store: scene.storeOn(await scene.connect(), { table }),
    });
    for (const [one, other] of [
      [polling, listening],
      [listening, polling],
    ] as const) {
      const held = await one.acquire('key');
      const waiting = other.acquire('key', { timeout: LONG });
      // The server answers it after the waiting acquisition.
      expect(await other.tryAcquire('key')).toBeUndefined();
      const started = performance.now();
      await held.release();
      await (await waiting).release();
      // Polling by the managers would take 20 s.
      expect(performance.now() - started).toBeLessThan(15_000);
    }
  });

  it('repeats a release after an error that wraps the loss of the connection', async () => {
    const query = await poolQuery();
    let lost: Error | undefined;
    const store = scene.storeOn(
      {
        query(text: string, values: unknown[]) {
          const error = lost;
          lost = undefined;
          return error ? Promise.reject(error) : query(text, values);
        },
      },
      { table: scene.newTable() },
    );
    for (const error of [
      Object.assign(new Error('query failed'), { cause: new Error('Connection terminated unexpectedly') }),
      Object.assign(new Error('raw query failed'), {
        code: 'P2010',
        meta: { code: '57P01', message: 'ended' },
      }),
      Object.assign(new Error('closed'), { code: 'ERR_POSTGRES_CONNECTION_CLOSED' }),
      Object.assign(new Error('server'), { code: 'ERR_POSTGRES_SERVER_ERROR', errno: '08006' }),
      Object.assign(new Error('fetch failed'), {
        sourceError: Object.assign(new Error(), { code: 'ECONNRESET' }),
      }),
    ]) {
      await store.tryAcquire('key', 'me', LONG);
      lost = error;
      expect(await store.release('key', 'me')).toBe(true);
    }
  });

  it('takes the code of the server out of a wrapper that contains itself', async () => {
    const wrapper = Object.assign(new Error('wrapped'), {
      code: 'P2010',
      meta: { code: '42501', message: 'denied' },
    });
    Object.assign(wrapper, { cause: wrapper });
    const store = scene.storeOn({ query: () => Promise.reject(wrapper) }, { table: scene.newTable() });
    await expect(store.inspect('key')).rejects.toMatchObject({
      code: 'ERR_LEASE_STORE_DENIED',
      message: expect.stringContaining('denied') as string,
    });
  });

  it('is renewed in the background only with a clientModule', async () => {
    const store = scene.storeOn({ query: await poolQuery() }, { table: scene.newTable() });
    expect(() => new LeaseManager({ store, maxHold: LONG, renew: { background: true } })).toThrow(
      expect.objectContaining({ code: 'ERR_LEASE_BACKGROUND' }),
    );
  });

  it('says at once that the pool was ended', async () => {
    const pool = new pg.Pool({ connectionString: scene.server.url });
    const store = scene.storeOn(pool, { table: scene.newTable() });
    await store.inspect('key');
    await pool.end();
    await expect(new LeaseManager({ store }).acquire('key', { timeout: LONG })).rejects.toMatchObject({
      code: 'ERR_LEASE_CLIENT_ENDED',
    });
  });
});

it('a store that finds its tables missing in a transaction of PGlite does not end the transaction', async () => {
  const { client, close } = await openPgLite();
  onTestFinished(close);
  await client.exec('CREATE TABLE mine (id integer)');
  await client.exec('BEGIN');
  const store = postgresLeaseStore({ client, timeout: 30_000 });
  await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject({
    code: 'ERR_LEASE_IN_TRANSACTION',
  });
  // Outside of the transaction, this statement would be committed by itself.
  await expect(client.query('INSERT INTO mine VALUES (1)')).rejects.toMatchObject({ code: '25P02' });
  await client.exec('ROLLBACK');
  expect((await client.query('SELECT * FROM mine')).rows).toEqual([]);
});
