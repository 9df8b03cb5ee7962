import { randomName } from '../../common/random-name.js';
import { MARK } from '../exact-text.js';
import { groupName } from '../../lease/contract/shared.js';
import { cannotList } from '../../lease/contract/listing.js';
import type { PageRange, StoredKey } from '../listing.js';
import type {
  GrantedShared,
  Keeping,
  Release,
  Releasing,
  Renewing,
  StoredLease,
  WantedShared,
} from '../server-store.js';
import type { Connection, SqliteRow, SqliteStatement } from './database.js';
import { groupOf, textOf, type Group } from './group-text.js';
import { StoreClock, type ClockRow, type Reading } from './store-clock.js';

/**
 * The number of granted keys after which a store removes expired rows. To do this for each key would take a
 * fifth of the time of an acquisition.
 */
const PURGED_AFTER = 16;
/**
 * The maximum number of expired rows that are removed for each granted key. Because this number is greater
 * than 1, expired rows do not accumulate.
 */
const PURGED_PER_KEY = 4;
const NANOSECONDS = 1_000_000n;
/**
 * Milliseconds (one day) for which an expired row is kept, so that the next holder sees that the key was
 * abandoned.
 */
const REMEMBERED = 86_400_000n;
/** The token of a row that reserves its key for a waiting store. Every lease has a higher token. */
const RESERVED = 0n;
/** The owner of a row that only refuses readers. */
const NO_STORE = '';
/**
 * Milliseconds for which a released key is reserved for a waiting store: about three times the longest pause
 * between polls. If that store hangs or has died, it delays the other stores by this time, but only once.
 */
const RESERVED_FOR = 200n;
/**
 * Milliseconds after which the record of a waiting store expires. A live process extends the record after
 * half of that time.
 */
const RECORDED_FOR = 5000n;

type Statements = ReturnType<typeof prepare>;

/** A key for which this store is recorded as waiting. */
export interface WaiterRow {
  readonly key: string;
  /** Milliseconds until the key's lease or reservation expires; 0 or negative if the key is free. */
  readonly remaining: bigint;
}

/**
 * The tables, and the operations on them. Each method that changes something is one transaction.
 *
 *     <table>           a row for each lease: key, owner, token, info, when it expires on the store's clock,
 *                       and `abandoned`
 *     <table>_clock     one row: the store's clock, the wall clock at that time, and the highest token
 *     <table>_waiters   a row for each store that waits for a key, by order of arrival, with its expiry
 *
 * `abandoned` is 1 if the previous holder left the key without a release, else 0. When the current holder
 * ends the lease, `abandoned` becomes NULL. So if the lease of a row has expired and `abandoned` is not NULL,
 * the key was abandoned. A reservation passes this information on to the next grant: its `abandoned` is 1 if
 * the key was abandoned, else NULL.
 *
 * If readers hold a key together, their group is the row's owner, and `info` contains the readers; see
 * {@link Group}. `abandoned` is 1 if the key was abandoned when the group was formed, else NULL. So the end of the
 * group does not change whether the key is abandoned.
 *
 * A release deletes the record of the first waiting store, and reserves the key for that store. So stores
 * take turns. A reservation is a row with the token {@link RESERVED}, and with the store instead of an owner.
 * It expires after {@link RESERVED_FOR} milliseconds. A store that died while it had a record delays the
 * other stores only once.
 *
 * If a group ends while its readers are put off, the key is not reserved for a store, because that store might wait
 * only for shared mode. Instead, its row has the token {@link RESERVED} and the owner {@link NO_STORE}, and expires when
 * readers are no longer put off. For an exclusive acquisition, the key of such a row is free.
 *
 * The store's clock follows the wall clock. If the wall clock is adjusted, {@link StoreClock} continues on
 * monotonic time. The wall clock is read inside the transaction, so the readings have the same order as the
 * transactions.
 *
 * A token is the wall clock in nanoseconds, or the highest token so far plus one, whichever is greater. So
 * tokens always rise, unless the file is lost and the wall clock is also set back.
 */
export class LeaseRows {
  readonly #connection: Connection;
  readonly #now: () => number;
  readonly #monotonic: (() => number) | undefined;
  readonly #clock = new StoreClock();
  readonly #table: string;
  /**
   * Identifies this store among the waiters. It differs from every encoded owner: after the mark, an encoded
   * owner has only hexadecimal digits.
   */
  readonly #store = `${MARK}store ${randomName()}`;
  /**
   * The number of keys granted since expired rows were last removed. The first acquisition removes rows,
   * because many processes acquire only a few keys.
   */
  #granted = PURGED_AFTER;
  #statements: Statements | undefined;
  #busyTimeout: SqliteStatement | undefined;

  /**
   * `now` returns the wall clock in milliseconds. `monotonic` returns the time of a monotonic clock, which
   * reveals jumps of the wall clock. If `monotonic` is undefined, jumps are not detected.
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

  /** Reads the lease of a key without a transaction, so the result may already be outdated. */
  find(key: string): StoredLease | undefined {
    return this.#withTables(({ clock, lease }) => {
      const found = lease.get(key);
      if (found === undefined || found['token'] === RESERVED) return undefined;
      const now = this.#clock.now(rowOf(clock.get()), this.#read());
      return (found['expires'] as bigint) > now ? leaseOf(found, now) : undefined;
    });
  }

  /** Reads one page of leases without a transaction. */
  list({ from, after, to }: PageRange, most: number): readonly StoredKey[] {
    return this.#withTables(({ clock, list, encoding }) => {
      if (encoding.get()!['encoding'] !== 'UTF-8') {
        throw cannotList('the SQLite file has an encoding in which the order of keys differs: UTF-16');
      }
      const now = this.#clock.now(rowOf(clock.get()), this.#read());
      const rows = list.all(from, after, to, now, RESERVED, BigInt(most));
      return rows.map((row) => ({ text: row['key'] as string, ...leaseOf(row, now) }));
    });
  }

  /**
   * Checks without a transaction whether an acquisition would be refused. Returns the index of the first key
   * that cannot be granted. Returns undefined if all keys are free. Also returns undefined if a key cannot be
   * granted and this store is not yet recorded as waiting for it, because only an attempt to acquire the key
   * creates that record.
   */
  refusal(keys: readonly string[], owner: string, isAwaited: (key: string) => boolean): number | undefined {
    return this.#withTables((statements) => {
      const now = this.#clock.now(rowOf(statements.clock.get()), this.#read());
      const place = keys.findIndex((key) => this.#isTaken(statements.lease.get(key), owner, now));
      if (place < 0) return undefined;
      const key = keys[place]!;
      return isAwaited(key) && !statements.isRecorded.get(this.#store, key, now) ? undefined : place;
    });
  }

  /**
   * Acquires all keys or none. If some key cannot be granted, this returns the index of the first key that
   * another owner holds or that is reserved for another store. If this store has a waiter for that key, this
   * store is recorded as waiting.
   */
  acquire(
    keys: readonly string[],
    owner: string,
    ttl: bigint,
    info: string | undefined,
    isAwaited: (key: string) => boolean,
  ): GrantedRows | number {
    let refused = -1;
    const granted = this.#atTime((statements, now, wall, highest) => {
      const rows = keys.map((key) => statements.lease.get(key));
      refused = rows.findIndex((row) => this.#isTaken(row, owner, now));
      if (refused >= 0) {
        const key = keys[refused]!;
        if (isAwaited(key)) statements.record.run(this.#store, key, now + RECORDED_FOR);
        return undefined;
      }
      const first = nextToken(wall, highest);
      const tokens = keys.map((_, i) => first + BigInt(i));
      statements.setClock.run(now, wall, tokens.at(-1)!);
      const abandoned = keys.map((key, i) => {
        const row = rows[i];
        const isAbandoned = wasAbandoned(row, now);
        const expires = row && isLease(row, now) ? later(row['expires'] as bigint, now + ttl) : now + ttl;
        statements.put.run(key, owner, tokens[i]!, expires, info ?? null, isAbandoned ? 1n : 0n);
        if (isAwaited(key)) statements.forget.run(this.#store, key);
        return isAbandoned;
      });
      this.#purge(statements, now, keys.length);
      return { tokens, abandoned };
    });
    return granted ?? refused;
  }

  /**
   * Grants the key in shared mode. If another owner holds the key, if it is reserved for another store, or if
   * readers are put off, this returns the milliseconds until that ends. If this store has a waiter for the key,
   * this store is then recorded as waiting.
   */
  acquireShared(
    { name: key, reader, length }: WantedShared,
    isAwaited: (key: string) => boolean,
  ): GrantedShared | bigint {
    let refused = 0n;
    const granted = this.#atTime((statements, now, wall, highest) => {
      refused = this.#refusedFor(statements, key, reader, now);
      if (refused > 0n) {
        if (isAwaited(key)) statements.record.run(this.#store, key, now + RECORDED_FOR);
        return undefined;
      }
      const until = now + BigInt(length);
      const row = statements.lease.get(key);
      const held = groupOf(row, now);
      if (isAwaited(key)) statements.forget.run(this.#store, key);
      if (held !== undefined) {
        const expires = row!['expires'] as bigint;
        const token = row!['token'] as bigint;
        const joined = { ...held, readers: new Set([...held.readers, reader]) };
        statements.setClock.run(now, wall, highest);
        const latest = later(expires, until);
        statements.put.run(key, held.name, token, latest, textOf(joined), markOf(held.abandoned));
        return { token, group: held.name, abandoned: held.abandoned };
      }
      const token = nextToken(wall, highest);
      const group = groupName(reader, token);
      const abandoned = wasAbandoned(row, now);
      const text = textOf({ putOffUntil: 0n, abandoned, readers: new Set([reader]) });
      statements.setClock.run(now, wall, token);
      statements.put.run(key, group, token, until, text, markOf(abandoned));
      this.#purge(statements, now, 1);
      return { token, group, abandoned };
    });
    return granted ?? refused;
  }

  /** As {@link refusal}, for an acquisition in shared mode. Returns milliseconds, as {@link acquireShared}. */
  refusalShared(
    { name: key, reader }: WantedShared,
    isAwaited: (key: string) => boolean,
  ): bigint | undefined {
    return this.#withTables((statements) => {
      const now = this.#clock.now(rowOf(statements.clock.get()), this.#read());
      const refused = this.#refusedFor(statements, key, reader, now);
      if (refused <= 0n) return undefined;
      return isAwaited(key) && !statements.isRecorded.get(this.#store, key, now) ? undefined : refused;
    });
  }

  /**
   * Removes the reader from the group that holds the key. The last reader frees the key. `keeps`: as for
   * {@link release}.
   */
  releaseShared(key: string, reader: string, keeps: (key: string) => boolean): Release {
    const release = this.#atTime((statements, now, wall, highest): Release | undefined => {
      const row = statements.lease.get(key);
      const group = groupOf(row, now);
      if (group?.readers.has(reader) !== true) return undefined;
      statements.setClock.run(now, wall, highest);
      const readers = new Set(group.readers);
      readers.delete(reader);
      if (readers.size > 0) {
        change(statements, key, row!, { ...group, readers });
        return 'left';
      }
      const { abandoned, putOffUntil } = group;
      if (putOffUntil > now) {
        statements.put.run(key, NO_STORE, RESERVED, putOffUntil, null, markOf(abandoned));
        return 'freed';
      }
      if (abandoned) statements.put.run(key, group.name, row!['token'] as bigint, now, null, 1n);
      else statements.remove.run(key, group.name, now, null, null);
      if (!keeps(key)) reserve(statements, key, now, markOf(abandoned));
      return 'freed';
    });
    return release ?? 'not held';
  }

  /** Whether a group holds the key. Reads without a transaction. */
  isShared(key: string): boolean {
    return this.#withTables(({ clock, lease }) => {
      const now = this.#clock.now(rowOf(clock.get()), this.#read());
      return groupOf(lease.get(key), now) !== undefined;
    });
  }

  /** Refuses new readers of the group for this time. False if no group holds the key. */
  putOffReaders(key: string, milliseconds: number): boolean {
    const isPutOff = this.#atTime((statements, now, wall, highest) => {
      const row = statements.lease.get(key);
      const group = groupOf(row, now);
      if (group === undefined) return undefined;
      const until = now + BigInt(milliseconds);
      const putOffUntil = until > group.putOffUntil ? until : group.putOffUntil;
      statements.setClock.run(now, wall, highest);
      change(statements, key, row!, { ...group, putOffUntil });
      return true;
    });
    return isPutOff === true;
  }

  renew(keys: readonly Renewing[]): readonly boolean[] {
    return this.#atTime(({ setClock, extend }, now, wall, highest) => {
      setClock.run(now, wall, highest);
      return keys.map(({ name, owner, length, info }) => {
        return Number(extend.run(now + BigInt(length), info ?? null, name, owner, now).changes) > 0;
      });
    });
  }

  /** Sets the owner and the remaining time of one grant, possibly to a shorter time. A repetition changes nothing. */
  keep({ name, owner, length, token, keptOwner }: Keeping): boolean {
    return this.#atTime((statements, now, wall, highest) => {
      statements.setClock.run(now, wall, highest);
      const until = now + BigInt(length);
      const kept = statements.keep.run(owner, until, keptOwner, name, owner, keptOwner, now, token);
      return Number(kept.changes) > 0;
    });
  }

  /**
   * Frees the keys that their owners hold. `keeps` returns whether the waiters of this store may get a key
   * next. If not, the key goes to the first waiting store.
   */
  release(keys: readonly Releasing[], keeps: (key: string) => boolean): readonly boolean[] {
    return this.#atTime((statements, now, wall, highest) => {
      statements.setClock.run(now, wall, highest);
      return keys.map(({ name: key, owner, token = null }) => {
        if (Number(statements.remove.run(key, owner, now, token, token).changes) === 0) return false;
        if (!keeps(key)) reserve(statements, key, now, null);
        return true;
      });
    });
  }

  /** Frees the key of a grant that its holder did not release. Otherwise like {@link release}. */
  takeBack(
    { name: key, owner, token }: Releasing,
    wasUsed: boolean,
    keeps: (key: string) => boolean,
  ): boolean {
    return this.#atTime((statements, now, wall, highest) => {
      statements.setClock.run(now, wall, highest);
      const abandoned = statements.lease.get(key)?.['abandoned'] as bigint | null | undefined;
      const removed = statements.remove.run(key, owner, now, token!, token!);
      if (Number(removed.changes) === 0) return false;
      const isAbandoned = typeof abandoned === 'bigint' && (wasUsed || abandoned === 1n);
      if (isAbandoned) statements.put.run(key, owner, token!, now, null, 1n);
      if (!keeps(key)) reserve(statements, key, now, isAbandoned ? 1n : null);
      return true;
    });
  }

  /**
   * Returns the keys for which this store is recorded as waiting. Writes only if a record must be extended,
   * or must be deleted because the store no longer waits.
   */
  recorded(isAwaited: (key: string) => boolean): readonly WaiterRow[] {
    return this.#withTables((statements) => {
      const now = this.#clock.now(rowOf(statements.clock.get()), this.#read());
      const rows = statements.recorded.all(this.#store);
      const left = rows.map((row) => row['key'] as string).filter((key) => !isAwaited(key));
      const isDue = rows.some((row) => (row['ends'] as bigint) - now < RECORDED_FOR / 2n);
      if (left.length > 0 || isDue) this.#extend(left);
      return rows.map((row) => ({
        key: row['key'] as string,
        remaining: ((row['expires'] as bigint | null) ?? now) - now,
      }));
    });
  }

  #extend(left: readonly string[]): void {
    this.#atTime((statements, now) => {
      for (const key of left) statements.forget.run(this.#store, key);
      statements.extendRecords.run(now + RECORDED_FOR, this.#store);
      statements.purgeRecords.run(now);
    });
  }

  /** Whether the row refuses an exclusive acquisition. `row` is undefined if the key has no row. */
  #isTaken(row: SqliteRow | undefined, owner: string, now: bigint): boolean {
    if (row === undefined || (row['expires'] as bigint) <= now) return false;
    if (row['token'] !== RESERVED) return row['owner'] !== owner;
    return row['owner'] !== NO_STORE && row['owner'] !== this.#store;
  }

  /** Removes some expired rows, if enough keys were granted. `granted`: the number of keys granted now. */
  #purge(statements: Statements, now: bigint, granted: number): void {
    this.#granted += granted;
    if (this.#granted < PURGED_AFTER) return;
    const most = BigInt(PURGED_PER_KEY * this.#granted);
    this.#granted = 0;
    statements.purge.run(now - REMEMBERED, most);
    statements.purgeEnded.run(now, most);
  }

  /** Milliseconds for which an acquisition of the key in shared mode is refused. 0 or less if it is granted. */
  #refusedFor(statements: Statements, key: string, reader: string, now: bigint): bigint {
    const row = statements.lease.get(key);
    if (row === undefined) return 0n;
    const left = (row['expires'] as bigint) - now;
    const group = groupOf(row, now);
    if (group === undefined) return row['token'] === RESERVED && row['owner'] === this.#store ? 0n : left;
    const putOffFor = group.readers.has(reader) ? 0n : group.putOffUntil - now;
    return putOffFor < left ? putOffFor : left;
  }

  /** If the tables were dropped, recreates them and retries once. */
  #withTables<T>(body: (statements: Statements) => T): T {
    try {
      return body(this.#prepared());
    } catch (error) {
      if (!/no such table/.test(String(error))) throw error;
      this.#statements = undefined;
      return body(this.#prepared());
    }
  }

  /**
   * Sets `busy_timeout` to 0 while `body` runs. Otherwise SQLite would sleep on a locked database and block
   * the event loop.
   */
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

  /**
   * Runs a transaction at the current time of the store's clock. `body` returns undefined if it did not write
   * the clock's row.
   */
  #atTime<T>(body: (statements: Statements, now: bigint, wall: bigint, highest: bigint) => T): T {
    return this.#withTables((statements) =>
      this.#withoutSleeping(() => {
        this.#connection.exec('BEGIN IMMEDIATE');
        try {
          const before = statements.clock.get();
          const reading = this.#read();
          const row = { time: this.#clock.now(rowOf(before), reading), wall: reading.wall };
          const result = body(
            statements,
            row.time,
            row.wall,
            (before?.['token'] as bigint | undefined) ?? 0n,
          );
          this.#connection.exec('COMMIT');
          if (result !== undefined) this.#clock.wrote(row, reading);
          return result;
        } catch (error) {
          rollBack(this.#connection);
          throw error;
        }
      }),
    );
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

function create(connection: Connection, table: string): void {
  connection.prepareFile();
  connection.exec(
    `CREATE TABLE IF NOT EXISTS "${table}" (
       key TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, expires INTEGER NOT NULL, info TEXT,
       abandoned INTEGER
     ) WITHOUT ROWID;
     CREATE INDEX IF NOT EXISTS "${table}_expires" ON "${table}" (expires);
     CREATE TABLE IF NOT EXISTS "${table}_clock" (
       id INTEGER PRIMARY KEY CHECK (id = 1), time INTEGER NOT NULL, wall INTEGER NOT NULL, token INTEGER NOT NULL
     );
     CREATE TABLE IF NOT EXISTS "${table}_waiters" (
       place INTEGER PRIMARY KEY, store TEXT NOT NULL, key TEXT NOT NULL, ends INTEGER NOT NULL, UNIQUE (store, key)
     );
     CREATE INDEX IF NOT EXISTS "${table}_waiters_key" ON "${table}_waiters" (key);`,
  );
  addAbandoned(connection, table);
  // This index covers the rows that the next holder does not need to see. There are few of them, because a
  // release deletes its row.
  connection.exec(
    `CREATE INDEX IF NOT EXISTS "${table}_ended" ON "${table}" (expires) WHERE abandoned IS NULL`,
  );
}

/** Adds the column `abandoned` to a table that version 1.0 created. */
function addAbandoned(connection: Connection, table: string): void {
  const columns = connection.prepare(`SELECT 1 FROM pragma_table_info('${table}') WHERE name = 'abandoned'`);
  if (columns.get() !== undefined) return;
  try {
    connection.exec(`ALTER TABLE "${table}" ADD COLUMN abandoned INTEGER`);
  } catch (error) {
    // Another process added the column first.
    if (!/duplicate column/.test(String(error))) throw error;
  }
}

function prepare(connection: Connection, table: string) {
  const statement = (sql: string): SqliteStatement => connection.prepare(sql);
  return {
    clock: statement(`SELECT time, wall, token FROM "${table}_clock"`),
    setClock: statement(
      `INSERT OR REPLACE INTO "${table}_clock" (id, time, wall, token) VALUES (1, ?, ?, ?)`,
    ),
    lease: statement(`SELECT owner, token, expires, info, abandoned FROM "${table}" WHERE key = ?`),
    list: statement(
      `SELECT key, owner, token, expires, info FROM "${table}"
       WHERE key >= ? AND key > ? AND key < ? AND expires > ? AND token <> ? ORDER BY key LIMIT ?`,
    ),
    encoding: statement('PRAGMA encoding'),
    put: statement(
      `INSERT INTO "${table}" (key, owner, token, expires, info, abandoned) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = excluded.token, expires = excluded.expires,
         info = excluded.info, abandoned = excluded.abandoned`,
    ),
    extend: statement(
      `UPDATE "${table}" SET expires = max(expires, ?), info = coalesce(?, info)
       WHERE key = ? AND owner = ? AND expires > ?`,
    ),
    keep: statement(
      `UPDATE "${table}" SET expires = CASE owner WHEN ? THEN ? ELSE expires END, owner = ?, abandoned = NULL
       WHERE key = ? AND owner IN (?, ?) AND expires > ? AND token = ?`,
    ),
    remove: statement(
      `DELETE FROM "${table}" WHERE key = ? AND owner = ? AND expires > ? AND (? IS NULL OR token = ?)`,
    ),
    purge: statement(
      `DELETE FROM "${table}" WHERE key IN (SELECT key FROM "${table}" WHERE expires <= ? ORDER BY expires LIMIT ?)`,
    ),
    purgeEnded: statement(
      `DELETE FROM "${table}" WHERE key IN (
         SELECT key FROM "${table}" WHERE abandoned IS NULL AND expires <= ? ORDER BY expires LIMIT ?)`,
    ),
    isRecorded: statement(`SELECT 1 FROM "${table}_waiters" WHERE store = ? AND key = ? AND ends > ?`),
    record: statement(
      `INSERT INTO "${table}_waiters" (store, key, ends) VALUES (?, ?, ?)
       ON CONFLICT (store, key) DO UPDATE SET ends = excluded.ends`,
    ),
    firstWaiter: statement(
      `SELECT store FROM "${table}_waiters" WHERE key = ? AND ends > ? ORDER BY place LIMIT 1`,
    ),
    forget: statement(`DELETE FROM "${table}_waiters" WHERE store = ? AND key = ?`),
    recorded: statement(
      `SELECT waiter.key, waiter.ends, lease.expires FROM "${table}_waiters" AS waiter
       LEFT JOIN "${table}" AS lease ON lease.key = waiter.key AND lease.owner <> '${NO_STORE}' WHERE waiter.store = ?`,
    ),
    extendRecords: statement(`UPDATE "${table}_waiters" SET ends = ? WHERE store = ?`),
    purgeRecords: statement(`DELETE FROM "${table}_waiters" WHERE ends <= ?`),
  };
}

/** The tokens of the acquired keys, and whether each key was abandoned, in the order of the keys. */
interface GrantedRows {
  readonly tokens: readonly bigint[];
  readonly abandoned: readonly boolean[];
}

/** Whether a grant that replaces the row is marked as abandoned. `row` is undefined if the key has no row. */
function wasAbandoned(row: SqliteRow | undefined, now: bigint): boolean {
  if (row === undefined) return false;
  const abandoned = row['abandoned'] as bigint | null;
  return isLease(row, now) ? abandoned === 1n : abandoned !== null;
}

/** Whether the row is an unexpired lease. */
function isLease(row: SqliteRow, now: bigint): boolean {
  return row['token'] !== RESERVED && (row['expires'] as bigint) > now;
}

function later(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}

function nextToken(wall: bigint, highest: bigint): bigint {
  const clock = wall * NANOSECONDS;
  return clock > highest ? clock : highest + 1n;
}

/** Changes the group that holds the row's key. */
function change(statements: Statements, key: string, row: SqliteRow, group: Group): void {
  const [token, expires] = [row['token'] as bigint, row['expires'] as bigint];
  statements.put.run(key, group.name, token, expires, textOf(group), markOf(group.abandoned));
}

/** The value of `abandoned` of a group or a reservation. */
function markOf(abandoned: boolean): bigint | null {
  return abandoned ? 1n : null;
}

/**
 * Reserves a freed key for the first waiting store. Does nothing if no store waits. `abandoned`: 1 if the key
 * is abandoned, else null.
 */
function reserve(statements: Statements, key: string, now: bigint, abandoned: bigint | null): void {
  const next = statements.firstWaiter.get(key, now)?.['store'] as string | undefined;
  if (next === undefined) return;
  statements.forget.run(next, key);
  statements.put.run(key, next, RESERVED, now + RESERVED_FOR, null, abandoned);
}

function leaseOf(row: SqliteRow, now: bigint): StoredLease {
  return {
    owner: row['owner'] as string,
    token: row['token'] as bigint,
    remaining: Number((row['expires'] as bigint) - now),
    info: (row['info'] as string | null) ?? '',
  };
}

function rowOf(row: SqliteRow | undefined): ClockRow | undefined {
  return row && { time: row['time'] as bigint, wall: row['wall'] as bigint };
}

/** Rolls back the transaction, unless SQLite already did so after the error. */
function rollBack(connection: Connection): void {
  try {
    connection.exec('ROLLBACK');
  } catch {
    // There is nothing to roll back.
  }
}
