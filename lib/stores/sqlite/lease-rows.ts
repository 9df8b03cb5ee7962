import type { Connection, SqliteRow, SqliteStatement } from './database.js';
import { StoreClock, type ClockRow, type Reading } from './store-clock.js';

/** How many expired rows an acquisition removes at most: more than it adds, so that they do not pile up. */
const PURGED_PER_ACQUISITION = 4n;
const NANOSECONDS = 1_000_000n;

type Statements = ReturnType<typeof prepare>;

export interface LeaseRow {
  readonly owner: string;
  readonly token: bigint;
  /** Milliseconds until it expires; above 0. */
  readonly remaining: bigint;
  readonly info: string | undefined;
}

/**
 * The tables, and the operations on them. Each method except {@link find} is one transaction.
 *
 *     <table>         a row for each lease: key, owner, token, info, and when it expires on the store's clock
 *     <table>_clock   one row: the store's clock, the wall clock at that time, and the highest token
 *
 * The store's clock is the wall clock until somebody sets the wall clock. Then {@link StoreClock} continues by
 * monotonic time. The wall clock is read inside the transaction, so that readings are in the order of the transactions.
 *
 * A token is the wall clock in nanoseconds, or the highest token so far plus one, whichever is greater. So tokens rise as
 * long as the file is kept or the wall clock is not set back.
 */
export class LeaseRows {
  readonly #connection: Connection;
  readonly #now: () => number;
  readonly #monotonic: (() => number) | undefined;
  readonly #clock = new StoreClock();
  readonly #table: string;
  #statements: Statements | undefined;
  #busyTimeout: SqliteStatement | undefined;

  /**
   * `now`: the wall clock, in milliseconds. `monotonic`: a clock that shows when the wall clock jumps; undefined if
   * that does not matter.
   */
  constructor(
    connection: Connection,
    table: string,
    now: () => number,
    monotonic: (() => number) | undefined,
  ) {
    this.#monotonic = monotonic;
    this.#connection = connection;
    this.#table = table;
    this.#now = now;
  }

  /** Without a transaction: the result may be outdated when it returns. */
  find(key: string): LeaseRow | undefined {
    return this.#withTables(({ clock, lease }) => {
      const found = lease.get(key);
      if (found === undefined) return undefined;
      const remaining = (found['expires'] as bigint) - this.#clock.now(rowOf(clock.get()), this.#read());
      if (remaining <= 0n) return undefined;
      const text = found['info'] as string | null;
      const info = text === null || text === '' ? undefined : text;
      return { owner: found['owner'] as string, token: found['token'] as bigint, remaining, info };
    });
  }

  /** All of the keys, or none: then the place of the first that another owner holds. */
  acquire(
    keys: readonly string[],
    owner: string,
    ttl: bigint,
    info: string | undefined,
  ): readonly bigint[] | number {
    let refused = -1;
    const tokens = this.#atTime((statements, now, wall, highest) => {
      refused = keys.findIndex((key) => {
        const held = statements.lease.get(key);
        return held !== undefined && held['owner'] !== owner && (held['expires'] as bigint) > now;
      });
      if (refused >= 0) return undefined;
      const clock = wall * NANOSECONDS;
      const first = clock > highest ? clock : highest + 1n;
      const given = keys.map((_, i) => first + BigInt(i));
      statements.setClock.run(now, wall, given.at(-1)!);
      statements.purge.run(now, PURGED_PER_ACQUISITION * BigInt(keys.length));
      keys.forEach((key, i) => statements.put.run(key, owner, given[i]!, now + ttl, info ?? null));
      return given;
    });
    return tokens ?? refused;
  }

  /** `info`: undefined if it stays. */
  renew(keys: readonly string[], owner: string, ttl: bigint, info: string | undefined): readonly boolean[] {
    return this.#atTime((statements, now, wall, highest) => {
      statements.setClock.run(now, wall, highest);
      return keys.map(
        (key) => Number(statements.extend.run(now + ttl, info ?? null, key, owner, now).changes) > 0,
      );
    });
  }

  release(keys: readonly string[], owner: string): readonly boolean[] {
    return this.#atTime((statements, now, wall, highest) => {
      statements.setClock.run(now, wall, highest);
      return keys.map((key) => Number(statements.remove.run(key, owner, now).changes) > 0);
    });
  }

  /** Removes the leases only if they are exactly these grants. */
  withdraw(keys: readonly string[], owner: string, tokens: readonly bigint[]): void {
    this.#transaction((statements) => {
      keys.forEach((key, i) => statements.withdraw.run(key, owner, tokens[i]!));
    });
  }

  #transaction<T>(body: (statements: Statements) => T): T {
    return this.#withTables((statements) =>
      this.#withoutSleeping(() => {
        this.#connection.exec('BEGIN IMMEDIATE');
        try {
          const result = body(statements);
          this.#connection.exec('COMMIT');
          return result;
        } catch (error) {
          rollBack(this.#connection);
          throw error;
        }
      }),
    );
  }

  /** Creates the tables again, once, if somebody has dropped them. */
  #withTables<T>(body: (statements: Statements) => T): T {
    try {
      return body(this.#prepared());
    } catch (error) {
      if (!/no such table/.test(String(error))) throw error;
      this.#statements = undefined;
      return body(this.#prepared());
    }
  }

  /** On a locked database SQLite would sleep for the caller's `busy_timeout`, and block the event loop. */
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

  /** A transaction that sets the clock, unless the body finds that another owner holds the lease. */
  #atTime<T>(body: (statements: Statements, now: bigint, wall: bigint, highest: bigint) => T): T {
    let reading!: Reading;
    let row!: ClockRow;
    const result = this.#transaction((statements) => {
      const before = statements.clock.get();
      reading = this.#read();
      row = { time: this.#clock.now(rowOf(before), reading), wall: reading.wall };
      return body(statements, row.time, row.wall, before === undefined ? 0n : (before['token'] as bigint));
    });
    if (result !== undefined) this.#clock.wrote(row, reading);
    return result;
  }

  #read(): Reading {
    const monotonic = this.#monotonic;
    if (monotonic === undefined) return { before: -Infinity, wall: this.#wall(), after: Infinity };
    const before = monotonic();
    const wall = this.#wall();
    return { before, wall, after: monotonic() };
  }

  #wall(): bigint {
    return BigInt(Math.floor(this.#now()));
  }

  /** Creates the tables before the first use. */
  #prepared(): Statements {
    this.#connection.checkOutsideTransaction();
    if (this.#statements) return this.#statements;
    this.#withoutSleeping(() => create(this.#connection, this.#table));
    this.#statements = prepare(this.#connection, this.#table);
    return this.#statements;
  }
}

/** WAL: readers never lock a writer out. A database in memory has no such mode. */
function create(connection: Connection, table: string): void {
  connection.prepare('PRAGMA journal_mode = WAL').get();
  connection.exec(
    `CREATE TABLE IF NOT EXISTS ${table} (
       key TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, expires INTEGER NOT NULL, info TEXT
     ) WITHOUT ROWID;
     CREATE INDEX IF NOT EXISTS ${table}_expires ON ${table} (expires);
     CREATE TABLE IF NOT EXISTS ${table}_clock (
       id INTEGER PRIMARY KEY CHECK (id = 1), time INTEGER NOT NULL, wall INTEGER NOT NULL, token INTEGER NOT NULL
     );`,
  );
  addInfo(connection, table);
}

/** To a table that an earlier version made. */
function addInfo(connection: Connection, table: string): void {
  const column = connection.prepare(
    `SELECT COUNT(*) AS found FROM pragma_table_info('${table}') WHERE name = 'info'`,
  );
  if (column.get()!['found'] !== 0n) return;
  try {
    connection.exec(`ALTER TABLE ${table} ADD COLUMN info TEXT`);
  } catch (error) {
    // Another process has added it meanwhile.
    if (!/duplicate column/.test(String(error))) throw error;
  }
}

function prepare(connection: Connection, table: string) {
  const statement = (sql: string): SqliteStatement => connection.prepare(sql);
  return {
    clock: statement(`SELECT time, wall, token FROM ${table}_clock`),
    setClock: statement(`INSERT OR REPLACE INTO ${table}_clock (id, time, wall, token) VALUES (1, ?, ?, ?)`),
    lease: statement(`SELECT owner, token, expires, info FROM ${table} WHERE key = ?`),
    put: statement(
      `INSERT INTO ${table} (key, owner, token, expires, info) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
       SET owner = excluded.owner, token = excluded.token, expires = excluded.expires, info = excluded.info`,
    ),
    extend: statement(
      `UPDATE ${table} SET expires = ?, info = coalesce(?, info) WHERE key = ? AND owner = ? AND expires > ?`,
    ),
    remove: statement(`DELETE FROM ${table} WHERE key = ? AND owner = ? AND expires > ?`),
    withdraw: statement(`DELETE FROM ${table} WHERE key = ? AND owner = ? AND token = ?`),
    purge: statement(
      `DELETE FROM ${table} WHERE key IN (SELECT key FROM ${table} WHERE expires <= ? ORDER BY expires LIMIT ?)`,
    ),
  };
}

function rowOf(row: SqliteRow | undefined): ClockRow | undefined {
  return row && { time: row['time'] as bigint, wall: row['wall'] as bigint };
}

/** After some errors SQLite has already rolled back. */
function rollBack(connection: Connection): void {
  try {
    connection.exec('ROLLBACK');
  } catch {
    // Nothing to roll back.
  }
}
