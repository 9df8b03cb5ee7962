import type { Names } from '../../common/checks.js';
import { localNow } from '../../common/elapsed.js';
import { invalidArgType, outOfRange, type LockError } from '../../common/errors.js';
import { storeDenied } from '../../lease/contract/errors.js';
import {
  checkClock,
  checkNonEmpty,
  readClock,
  type Clock,
  type ClosableLeaseStore,
  type ExactLeaseStore,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import type { SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { encodeText } from '../exact-text.js';
import type { Operation } from '../requests.js';
import { checkTerms, SeveralServerStore } from '../server-store.js';
import type {
  Backend,
  Granted,
  Kept,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
} from '../server-store.js';
import { Connection, isBusy, isDenied, type SqliteDatabase } from './database.js';
import { LeaseRows } from './lease-rows.js';
import { Releases } from './releases.js';

const DEFAULT_TABLE = 'stripelock_leases';

interface CommonOptions {
  /** Name of the table, which is created if it is missing. Letters, digits and underscores. Default "stripelock_leases". */
  table?: string;
  /** Milliseconds for which an operation is tried again while others have the database locked. Default 1000. */
  timeout?: number;
  /** How much faster the store's clock may run than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /** The wall clock that all clients of the file share. Default: `Date.now()`. */
  clock?: Clock;
}

/** For `sqliteLeaseStore` of `stripelock/sqlite`, on a database of the caller's. */
export interface SqliteDatabaseOptions extends CommonOptions {
  /**
   * A `DatabaseSync` of `node:sqlite` (Node 22.13 and later), a `better-sqlite3` database, or a `Database` of
   * `bun:sqlite`. It stays the caller's.
   */
  database: SqliteDatabase;
  /** Only without a database. */
  path?: undefined;
}

/** For `sqliteLeaseStore` of `stripelock/sqlite`, which opens a file itself. */
export interface SqlitePathOptions extends CommonOptions {
  /** A file to open with `node:sqlite`. It is created if it is missing. */
  path: string;
  /** Only without a path. */
  database?: undefined;
}

/** A file to open, or a database that is open. */
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
 * Leases in a SQLite file, for the processes of one machine. `close` closes the database if the store has opened it.
 *
 * Each operation is one transaction (`BEGIN IMMEDIATE`), which blocks the thread for well below a millisecond. While
 * others have the database locked it is tried again without blocking. If the database stays locked for `timeout`, an
 * acquisition counts as refused (undefined), and other operations reject with LeaseStoreError. An operation rejects
 * with a LockError, code ERR_LEASE_IN_TRANSACTION, while a transaction is open on the caller's database; with the code
 * ERR_LEASE_STORE_DENIED if the database is read-only.
 *
 * While acquisitions wait in managers, the store looks at the file every few milliseconds, so that stores that want a key
 * take turns.
 *
 * If the file is deleted, moved or replaced while the store has it open, other processes do not see its leases: a lease is
 * lost at its next renewal, and acquisitions reject with a LockError (ERR_SQLITE_FILE). Until that renewal another process can
 * be granted the key in a new file.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options, a LockError
 * (ERR_NO_SQLITE) for a path if this Node has no `node:sqlite`, and one (ERR_SQLITE_FILE) if the file cannot be opened.
 */
export function sqliteLeaseStore(
  options: SqliteLeaseStoreOptions,
): WakingLeaseStore &
  SeveralKeysLeaseStore &
  InfoLeaseStore &
  ReopenableLeaseStore &
  ExactLeaseStore &
  ClosableLeaseStore {
  const terms = checkTerms(options, NAMES);
  return new SeveralServerStore(new SqliteBackend(options), terms, sourceFrom(options));
}

/** Leases in the rows of a table. Each operation is one transaction, tried again while others have the database locked. */
class SqliteBackend implements Backend {
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
    // A clock of the caller's own may stand still or jump, so no monotonic clock checks it.
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

  /** Reads first, as polling must not keep others from writing. */
  acquire({ names, owner, length, info }: Wanted): Promise<Granted | Refused> {
    this.#connection.checkInPlace();
    const { isAwaited } = this.#releases;
    const answer =
      this.#rows.refusal(names, owner, isAwaited) ??
      this.#rows.acquire(names, owner, BigInt(length), info, isAwaited);
    if (typeof answer === 'number') return Promise.resolve({ place: answer });
    for (const name of names) this.#releases.granted(name);
    // No answer is late: an attempt has it before any timer can run.
    return Promise.resolve({ tokens: answer, giveBack: () => undefined });
  }

  renew(keys: readonly Renewing[]): Promise<readonly boolean[]> {
    // Others do not see these leases.
    if (!this.#connection.isInPlace) return Promise.resolve(keys.map(() => false));
    return Promise.resolve(this.#rows.renew(keys));
  }

  keep({ names, owner, length, tokens }: Wanted): Promise<boolean> {
    return Promise.resolve(this.#rows.keep(names[0]!, owner, BigInt(length), tokens![0]!));
  }

  release(keys: readonly Releasing[]): Promise<Release[]> {
    const freed = this.#rows.release(keys, this.#releases.keeps);
    keys.filter((_, i) => freed[i]).forEach(({ name }) => this.#releases.wake(name));
    return Promise.resolve(freed.map((isFreed) => (isFreed ? 'freed' : 'not held')));
  }

  inspect(name: string): Promise<Kept | undefined> {
    this.#connection.checkInPlace();
    return Promise.resolve(this.#rows.find(name));
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

/** Only a file that the store opens itself, and on the clock of the system, can be opened by another thread. */
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

/** The name becomes part of SQL, where it cannot be a parameter. */
function checkTable(table: unknown): string {
  if (table === undefined) return DEFAULT_TABLE;
  checkNonEmpty(table, 'options.table');
  // SQLite keeps names that begin with "sqlite_" to itself.
  if (/^(?!sqlite_)[A-Z_]\w{0,63}$/i.test(table as string)) return table as string;
  throw outOfRange(
    'options.table',
    'a name of letters, digits and underscores, at most 64, that does not begin with sqlite_',
    table,
  );
}
