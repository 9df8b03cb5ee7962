import type { Names } from '../../common/checks.js';
import { localNow } from '../../common/elapsed.js';
import { invalidArgType, outOfRange, type LockError } from '../../common/errors.js';
import { afterTurn } from '../../common/host.js';
import { storeDenied } from '../../lease/contract/errors.js';
import {
  type AbandonmentLeaseStore,
  checkClock,
  checkNonEmpty,
  readClock,
  type Clock,
  type ClosableLeaseStore,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import type { SharedLeaseStore } from '../../lease/contract/shared.js';
import type { ListingLeaseStore } from '../../lease/contract/listing.js';
import { encodeText, type TextRange } from '../exact-text.js';
import { listByPages, pageOf, type Ask, type ListingBackend, type StoredKey } from '../listing.js';
import type { Operation } from '../requests.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import type {
  Granted,
  GrantedShared,
  Keeping,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
  WantedShared,
} from '../server-store.js';
import { Connection, isBusy, isDenied, type SqliteDatabase } from './database.js';
import { LeaseRows } from './lease-rows.js';
import { Releases } from './releases.js';

const DEFAULT_TABLE = 'stripelock_leases';

interface CommonOptions {
  /**
   * The table's name: letters, digits and underscores. The table is created if it does not exist. Default
   * "stripelock_leases".
   */
  table?: string;
  /**
   * Milliseconds for which an operation is retried while another connection has locked the database. Default
   * 1000.
   */
  timeout?: number;
  /** How much faster the store's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /** The wall clock. All clients of the file must use the same clock. Default: `Date.now()`. */
  clock?: Clock;
}

/** Options of `sqliteLeaseStore` (`stripelock/sqlite`) with the caller's database. */
export interface SqliteDatabaseOptions extends CommonOptions {
  /**
   * A `DatabaseSync` of `node:sqlite` (Node 22.13 and later), a `better-sqlite3` database, or a `Database` of
   * `bun:sqlite`. The store never closes this database.
   */
  database: SqliteDatabase;
  /** Not allowed together with `database`. */
  path?: undefined;
}

/** Options of `sqliteLeaseStore` (`stripelock/sqlite`) for a store that opens a file. */
export interface SqlitePathOptions extends CommonOptions {
  /** The file to open with `node:sqlite`. The file is created if it does not exist. */
  path: string;
  /** Not allowed together with `path`. */
  database?: undefined;
}

/** Options with either a file to open or an open database. */
export type SqliteLeaseStoreOptions = SqliteDatabaseOptions | SqlitePathOptions;

const NAMES: Names<SqliteLeaseStoreOptions> = {
  path: true,
  database: true,
  table: true,
  timeout: true,
  drift: true,
  clock: true,
};

/**
 * Leases in a SQLite file, for processes on one machine. `close` closes the database if the store opened it.
 *
 * Each operation that writes is one transaction (`BEGIN IMMEDIATE`), which blocks the thread for much less
 * than a millisecond. While the database is locked, the operation is retried without blocking. If the
 * database stays locked for `timeout`, an acquisition counts as refused (undefined), and other operations
 * reject with LeaseStoreError. While the caller has a transaction open on the database, operations reject
 * with a LockError (ERR_LEASE_IN_TRANSACTION). If the database is read-only, they reject with a LockError
 * (ERR_LEASE_STORE_DENIED).
 *
 * While acquisitions wait in managers, the store polls the file every few milliseconds. Stores that want the
 * same key take turns.
 *
 * If the file is deleted, moved or replaced while the store has it open, other processes do not see the
 * store's leases. Each lease is then lost at its next renewal, and acquisitions reject with a LockError
 * (ERR_SQLITE_FILE). A process that opens the new file can acquire the same key even before that renewal.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options. With a path,
 * throws a LockError: ERR_NO_SQLITE if this version of Node lacks `node:sqlite`, ERR_SQLITE_FILE if the file
 * cannot be opened.
 */
export function sqliteLeaseStore(
  options: SqliteLeaseStoreOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  AbandonmentLeaseStore &
  SharedLeaseStore &
  ListingLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  return new SeveralServerStore(new SqliteBackend(options), terms, sourceFrom(options));
}

/** Leases as rows of a table. Each operation is one transaction, retried while the database is locked. */
class SqliteBackend implements ListingBackend {
  readonly title = 'SQLite';
  readonly nameOf = encodeText;
  readonly lateIsRefused = true;
  readonly #rows: LeaseRows;
  readonly #releases: Releases;
  readonly #connection: Connection;

  constructor(options: SqliteLeaseStoreOptions) {
    const table = checkTable(options.table);
    const clock = options.clock === undefined ? undefined : checkClock(options.clock);
    this.#connection = connect(options);
    // The caller's clock may stand still or jump, so it is not compared with a monotonic clock.
    this.#rows = clock
      ? new LeaseRows(this.#connection, table, () => readClock(clock), undefined)
      : // eslint-disable-next-line no-restricted-properties -- `StoreClock` compares the wall clock with the other one
        new LeaseRows(this.#connection, table, () => Date.now(), localNow);
    this.#releases = new Releases(this.#rows);
  }

  retries(error: unknown, operation: Operation): boolean {
    operation.failure = error;
    return isBusy(error);
  }

  permanent(error: unknown): LockError | undefined {
    return isDenied(error) ? storeDenied(this.title, error) : undefined;
  }

  /**
   * Reads first, and writes only if the key may be free. So the attempts of waiters do not block other
   * writers.
   */
  acquire({ names, owner, length, info }: Wanted): Promise<Granted | Refused> {
    this.#connection.checkInPlace();
    const { isAwaited } = this.#releases;
    const answer =
      this.#rows.refusal(names, owner, isAwaited) ??
      this.#rows.acquire(names, owner, BigInt(length), info, isAwaited);
    if (typeof answer === 'number') return Promise.resolve({ place: answer });
    for (const name of names) this.#releases.granted(name);
    // SQLite answers before any timer can fire. So an answer is never late, and no grant needs to be given
    // back.
    return Promise.resolve({ ...answer, giveBack: () => undefined });
  }

  renew(keys: readonly Renewing[]): Promise<readonly boolean[]> {
    // If the file was deleted, moved or replaced, other processes do not see these leases, so the leases
    // count as lost.
    if (!this.#connection.isInPlace) return Promise.resolve(keys.map(() => false));
    return Promise.resolve(this.#rows.renew(keys));
  }

  keep(key: Keeping): Promise<boolean> {
    return Promise.resolve(this.#rows.keep(key));
  }

  release(keys: readonly Releasing[]): Promise<Release[]> {
    const freed = this.#rows.release(keys, this.#releases.keeps);
    keys.filter((_, i) => freed[i]).forEach(({ name }) => this.#releases.wake(name));
    return Promise.resolve(freed.map((isFreed) => (isFreed ? 'freed' : 'not held')));
  }

  takeBack(key: Releasing, wasUsed: boolean): Promise<Release> {
    const isFreed = this.#rows.takeBack(key, wasUsed, this.#releases.keeps);
    if (isFreed) this.#releases.wake(key.name);
    return Promise.resolve(isFreed ? 'freed' : 'not held');
  }

  acquireShared(wanted: WantedShared): Promise<GrantedShared | Refused> {
    this.#connection.checkInPlace();
    const { isAwaited } = this.#releases;
    const answer = this.#rows.refusalShared(wanted, isAwaited) ?? this.#rows.acquireShared(wanted, isAwaited);
    if (typeof answer === 'bigint') {
      this.#releases.refused(wanted.name, Number(answer));
      return Promise.resolve({ place: 0 });
    }
    this.#releases.granted(wanted.name);
    return Promise.resolve(answer);
  }

  releaseShared(name: string, reader: string): Promise<Release> {
    const release = this.#rows.releaseShared(name, reader, this.#releases.keeps);
    if (release === 'freed') this.#releases.wake(name);
    return Promise.resolve(release);
  }

  putOffReaders(name: string, milliseconds: number): Promise<boolean> {
    // Reads first, so that a writer that waits for another writer does not block any.
    const isPutOff = this.#rows.isShared(name) && this.#rows.putOffReaders(name, milliseconds);
    return Promise.resolve(isPutOff);
  }

  inspect(name: string): Promise<StoredLease | undefined> {
    this.#connection.checkInPlace();
    return Promise.resolve(this.#rows.find(name));
  }

  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async (range, asked) => {
      // Lets other events run between two pages.
      if (range.after !== '') await new Promise<void>((resolve) => afterTurn(resolve));
      this.#connection.checkInPlace();
      return pageOf(await ask(() => Promise.resolve(this.#rows.list(range, asked))), asked);
    });
  }

  listen(name: string, listener: () => void): () => void {
    return this.#releases.listen(name, listener);
  }

  close(): void {
    this.#releases.close();
    this.#connection.close();
  }
}

function connect({ database, path }: SqliteLeaseStoreOptions): Connection {
  if (path === undefined) return new Connection(database);
  if ((database as unknown) !== undefined) {
    throw invalidArgType('options.database', 'left out where options.path is given', database);
  }
  return Connection.open(checkNonEmpty(path, 'options.path'));
}

/**
 * Describes how another thread opens the same store. Undefined if the caller passed an open database or a
 * clock, because another thread cannot use these.
 */
function sourceFrom({
  path,
  table,
  timeout,
  drift,
  clock,
}: SqliteLeaseStoreOptions): LeaseStoreSource | undefined {
  if (path === undefined || clock !== undefined) return undefined;
  const options = { path, table, timeout, drift };
  return { module: 'stripelock/sqlite', name: 'sqliteLeaseStore', options };
}

/** The name becomes part of SQL, where parameters are not possible. */
function checkTable(table: unknown): string {
  if (table === undefined) return DEFAULT_TABLE;
  checkNonEmpty(table, 'options.table');
  // SQLite reserves names that start with "sqlite_".
  if (/^(?!sqlite_)[A-Z_]\w{0,63}$/i.test(table as string)) return table as string;
  throw outOfRange(
    'options.table',
    'a name of letters, digits and underscores, at most 64, that does not begin with sqlite_',
    table,
  );
}
