import type { Connection, SqliteRow, SqliteStatement } from './database.js';

/** Expired rows that an acquisition removes at most: more than the one that it adds, so that they do not pile up. */
const PURGED_PER_ACQUISITION = 4n;
const NANOSECONDS = 1_000_000n;

export interface LeaseRow {
  readonly owner: string;
  readonly token: bigint;
  /** Milliseconds; above 0. */
  readonly remaining: bigint;
}

/**
 * The tables, and what is done in them. Each method but {@link find} is one transaction.
 *
 *     <table>         a row for each lease: key, owner, token, and when it expires on the store's clock
 *     <table>_clock   one row: the store's clock, the wall clock when that was read, and the highest token
 *
 * The store's clock is the wall clock as long as that does not go backwards. Where it does, the store's stands still
 * for that step and then goes on at the wall clock's pace: `time` grows by what `wall` has grown since, if it has. The
 * wall clock is read inside the transaction, so that readings are in the order of the transactions.
 *
 * A token is the wall clock in nanoseconds or the highest so far plus one, whichever is more. So tokens rise for as
 * long as either the file is kept or the wall clock is not set back.
 */
export class LeaseRows {
  readonly #connection: Connection;
  readonly #now: () => number;
  readonly #table: string;
  #statements: ReturnType<typeof prepare> | undefined;
  #busyTimeout: SqliteStatement | undefined;

  /** `now`: the wall clock, in milliseconds. */
  constructor(connection: Connection, table: string, now: () => number) {
    this.#connection = connection;
    this.#table = table;
    this.#now = now;
  }

  /** Without a transaction: what it finds may have changed when it returns. */
  find(key: string): LeaseRow | undefined {
    const { clock, lease } = this.#prepared();
    const found = lease.get(key);
    if (found === undefined) return undefined;
    const remaining = (found['expires'] as bigint) - timeAt(clock.get(), this.#wall());
    if (remaining <= 0n) return undefined;
    return { owner: found['owner'] as string, token: found['token'] as bigint, remaining };
  }

  acquire(key: string, owner: string, ttl: bigint): bigint | undefined {
    return this.#transaction((statements) => {
      const [now, wall, highest] = this.#readClock(statements);
      const held = statements.lease.get(key);
      if (held && held['owner'] !== owner && (held['expires'] as bigint) > now) return undefined;
      const clock = wall * NANOSECONDS;
      const token = clock > highest ? clock : highest + 1n;
      statements.setClock.run(now, wall, token);
      statements.purge.run(now, PURGED_PER_ACQUISITION);
      statements.put.run(key, owner, token, now + ttl);
      return token;
    });
  }

  renew(key: string, owner: string, ttl: bigint): boolean {
    return this.#transaction((statements) => {
      const [now, wall, highest] = this.#readClock(statements);
      statements.setClock.run(now, wall, highest);
      return Number(statements.extend.run(now + ttl, key, owner, now).changes) > 0;
    });
  }

  release(key: string, owner: string): boolean {
    return this.#transaction((statements) => {
      const [now, wall, highest] = this.#readClock(statements);
      statements.setClock.run(now, wall, highest);
      return Number(statements.remove.run(key, owner, now).changes) > 0;
    });
  }

  /** Removes it only if it is that very grant. */
  withdraw(key: string, owner: string, token: bigint): void {
    this.#transaction((statements) => statements.withdraw.run(key, owner, token));
  }

  #transaction<T>(body: (statements: ReturnType<typeof prepare>) => T): T {
    const statements = this.#prepared();
    return this.#withoutSleeping(() => {
      this.#connection.exec('BEGIN IMMEDIATE');
      try {
        const result = body(statements);
        this.#connection.exec('COMMIT');
        return result;
      } catch (error) {
        rollBack(this.#connection);
        throw error;
      }
    });
  }

  /** SQLite would sleep on a locked database for as long as the caller has told it to, and the event loop with it. */
  #withoutSleeping<T>(body: () => T): T {
    this.#busyTimeout ??= this.#connection.prepare('PRAGMA busy_timeout');
    const timeout = this.#busyTimeout.get()!['timeout'] as bigint;
    if (timeout === 0n) return body();
    this.#connection.exec('PRAGMA busy_timeout = 0');
    try {
      return body();
    } finally {
      this.#connection.exec(`PRAGMA busy_timeout = ${timeout}`);
    }
  }

  #readClock({ clock }: ReturnType<typeof prepare>): [now: bigint, wall: bigint, highest: bigint] {
    const row = clock.get();
    const wall = this.#wall();
    return [timeAt(row, wall), wall, row === undefined ? 0n : (row['token'] as bigint)];
  }

  #wall(): bigint {
    return BigInt(Math.floor(this.#now()));
  }

  /** Makes the tables at first. */
  #prepared(): ReturnType<typeof prepare> {
    this.#connection.checkOutsideTransaction();
    if (this.#statements) return this.#statements;
    this.#withoutSleeping(() => create(this.#connection, this.#table));
    this.#statements = prepare(this.#connection, this.#table);
    return this.#statements;
  }
}

/** Reading and writing at once, and readers that never lock a writer out. What is in memory has no such mode. */
function create(connection: Connection, table: string): void {
  connection.prepare('PRAGMA journal_mode = WAL').get();
  connection.exec(
    `CREATE TABLE IF NOT EXISTS ${table} (
       key TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, expires INTEGER NOT NULL
     ) WITHOUT ROWID;
     CREATE INDEX IF NOT EXISTS ${table}_expires ON ${table} (expires);
     CREATE TABLE IF NOT EXISTS ${table}_clock (
       id INTEGER PRIMARY KEY CHECK (id = 1), time INTEGER NOT NULL, wall INTEGER NOT NULL, token INTEGER NOT NULL
     );`,
  );
}

function prepare(connection: Connection, table: string) {
  const statement = (sql: string): SqliteStatement => connection.prepare(sql);
  return {
    clock: statement(`SELECT time, wall, token FROM ${table}_clock`),
    setClock: statement(`INSERT OR REPLACE INTO ${table}_clock (id, time, wall, token) VALUES (1, ?, ?, ?)`),
    lease: statement(`SELECT owner, token, expires FROM ${table} WHERE key = ?`),
    put: statement(
      `INSERT INTO ${table} (key, owner, token, expires) VALUES (?, ?, ?, ?) ON CONFLICT (key)
       DO UPDATE SET owner = excluded.owner, token = excluded.token, expires = excluded.expires`,
    ),
    extend: statement(`UPDATE ${table} SET expires = ? WHERE key = ? AND owner = ? AND expires > ?`),
    remove: statement(`DELETE FROM ${table} WHERE key = ? AND owner = ? AND expires > ?`),
    withdraw: statement(`DELETE FROM ${table} WHERE key = ? AND owner = ? AND token = ?`),
    purge: statement(
      `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} WHERE expires <= ? ORDER BY expires LIMIT ?)`,
    ),
  };
}

/** The store's clock when the wall clock shows `wall`. Somebody may have emptied the tables. */
function timeAt(clock: SqliteRow | undefined, wall: bigint): bigint {
  if (clock === undefined) return wall;
  const passed = wall - (clock['wall'] as bigint);
  return (clock['time'] as bigint) + (passed > 0n ? passed : 0n);
}

/** After some errors SQLite has done it already. */
function rollBack(connection: Connection): void {
  try {
    connection.exec('ROLLBACK');
  } catch {
    // Nothing to roll back.
  }
}
