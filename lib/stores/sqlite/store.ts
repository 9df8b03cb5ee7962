import { checkOptionsObject, checkTimeout, type Names } from '../../common/checks.js';
import { performance, setTimeout } from '../../common/host.js';
import { localNow } from '../../common/elapsed.js';
import { invalidArgType, LockError, outOfRange } from '../../common/errors.js';
import { LeaseStoreError } from '../../lease/contract/errors.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import {
  checkClock,
  checkKey,
  checkNonEmpty,
  checkOwner,
  checkTtl,
  readClock,
  type Clock,
  type FencingToken,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import { checkInfo } from '../../lease/contract/info.js';
import { checkKeyList, type SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { checkDrift, withDrift, withoutDrift } from '../drift.js';
import { decodeText, encodeText } from '../exact-text.js';
import { Connection, isBusy, type SqliteDatabase } from './database.js';
import { LeaseRows } from './lease-rows.js';
import { Releases } from './releases.js';

const NAMES: Names<SqliteLeaseStoreOptions> = {
  path: true,
  database: true,
  table: true,
  timeout: true,
  drift: true,
  clock: true,
};
const DEFAULT_TABLE = 'stripelock_leases';
/** Milliseconds. A transaction of this store takes less than one. */
const DEFAULT_TIMEOUT = 1000;
/** Milliseconds between attempts at a locked database: at first, and at most. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 25;

interface CommonOptions {
  /** Name of the table, which is created if it is missing. Letters, digits and underscores. Default "stripelock_leases". */
  table?: string;
  /** Milliseconds for which an operation is tried again while others have the database locked. Default 1000. */
  timeout?: number;
  /** By how much the store's clock may run faster than a holder's, as a fraction. Default 0.001. */
  drift?: number;
  /** The wall clock that all clients of the file share. Default: `Date.now()`. */
  clock?: Clock;
}

/** For a store on a database of the caller's. */
export interface SqliteDatabaseOptions extends CommonOptions {
  /**
   * A `DatabaseSync` of `node:sqlite` (Node 22.13 and later), a `better-sqlite3` database, or a `Database` of
   * `bun:sqlite`. It stays the caller's.
   */
  database: SqliteDatabase;
  /** Only without a database. */
  path?: undefined;
}

/** For a store that opens a file itself. */
export interface SqlitePathOptions extends CommonOptions {
  /** A file to open with `node:sqlite`. It is created if it is missing. */
  path: string;
  /** Only without a path. */
  database?: undefined;
}

/** A file to open, or a database that is open. */
export type SqliteLeaseStoreOptions = SqliteDatabaseOptions | SqlitePathOptions;

/**
 * Leases in a SQLite file, for the processes of one machine. `close` closes the database if the store has opened it.
 *
 * Each operation is one transaction (`BEGIN IMMEDIATE`), which blocks the thread for well below a millisecond. While
 * others have the database locked it is tried again without blocking. If the database stays locked for `timeout`, an
 * acquisition counts as refused (undefined), and other operations reject with LeaseStoreError. An operation rejects
 * with a LockError, code ERR_LEASE_IN_TRANSACTION, while a transaction is open on the caller's database.
 *
 * While acquisitions wait in managers, the store looks at the file every few milliseconds, so that stores that want a key
 * take turns.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options, a LockError
 * (ERR_NO_SQLITE) for a path if this Node has no `node:sqlite`, and what the driver throws if the file cannot be opened.
 */
export function sqliteLeaseStore(
  options: SqliteLeaseStoreOptions,
): WakingLeaseStore & SeveralKeysLeaseStore & InfoLeaseStore & ReopenableLeaseStore {
  return new SqliteLeaseStore(options);
}

class SqliteLeaseStore
  implements WakingLeaseStore, SeveralKeysLeaseStore, InfoLeaseStore, ReopenableLeaseStore
{
  readonly source: LeaseStoreSource | undefined;
  readonly #rows: LeaseRows;
  readonly #releases: Releases;
  readonly #connection: Connection;
  readonly #ownsConnection: boolean;
  readonly #timeout: number;
  readonly #drift: number;
  #closed = false;

  constructor(options: SqliteLeaseStoreOptions) {
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options, NAMES);
    const { table, timeout, drift, clock } = options;
    const name = table === undefined ? DEFAULT_TABLE : checkTable(table);
    this.#timeout = timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout');
    this.#drift = checkDrift(drift);
    const checked = clock === undefined ? undefined : checkClock(clock);
    this.#ownsConnection = options.path !== undefined;
    this.#connection = connect(options);
    this.source = sourceFrom(options);
    // A clock of the caller's own may stand still or jump, so no monotonic clock checks it.
    this.#rows = checked
      ? new LeaseRows(this.#connection, name, () => readClock(checked), undefined)
      : new LeaseRows(
          this.#connection,
          name,
          () => Date.now(),
          () => localNow(),
        );
    this.#releases = new Releases(this.#rows);
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const answer = await this.#acquire([checkKey(key)], owner, ttl, info);
    return typeof answer === 'number' ? undefined : answer[0];
  }

  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number> {
    return this.#acquire(checkKeyList(keys), owner, ttl, info);
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const [renewed] = await this.#renew([checkKey(key)], owner, ttl, info);
    return renewed!;
  }

  async renewAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly boolean[]> {
    return this.#renew(checkKeyList(keys), owner, ttl, info);
  }

  async release(key: string, owner: string): Promise<boolean> {
    const [released] = await this.releaseAll([checkKey(key)], owner);
    return released!;
  }

  async releaseAll(keys: readonly string[], owner: string): Promise<readonly boolean[]> {
    return this.#release(checkKeyList(keys).map(encodeText), encodeText(checkOwner(owner)));
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const storedKey = encodeText(checkKey(key));
    const found = await this.#run(() => this.#rows.find(storedKey), failBusy);
    return (
      found && {
        owner: decodeText(found.owner),
        token: found.token,
        remaining: withoutDrift(Number(found.remaining), this.#drift),
        ...(found.info === undefined ? {} : { info: decodeText(found.info) }),
      }
    );
  }

  onRelease(key: string, listener: () => void): () => void {
    return this.#releases.listen(encodeText(checkKey(key)), listener);
  }

  close(): Promise<void> {
    this.#releases.close();
    if (!this.#closed && this.#ownsConnection) this.#connection.close();
    this.#closed = true;
    return Promise.resolve();
  }

  async #acquire(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info: string | undefined,
  ): Promise<readonly FencingToken[] | number> {
    const [stored, storedOwner] = [keys.map(encodeText), encodeText(checkOwner(owner))];
    const length = BigInt(withDrift(checkTtl(ttl), this.#drift));
    const storedInfo = storedInfoOf(info);
    const { isAwaited } = this.#releases;
    const at = performance.now();
    const answer = await this.#run<readonly FencingToken[] | number>(
      // Reads first, as polling must not keep others from writing.
      () =>
        this.#rows.refusal(stored, storedOwner, isAwaited) ??
        this.#rows.acquire(stored, storedOwner, length, storedInfo, isAwaited),
      () => 0,
    );
    if (typeof answer === 'number') return answer;
    for (const key of stored) this.#releases.granted(key);
    return grantInTime(answer, { store: 'SQLite', at, ttl }, performance.now(), () =>
      this.#release(stored, storedOwner, answer),
    );
  }

  async #renew(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info: string | undefined,
  ): Promise<readonly boolean[]> {
    const [stored, storedOwner] = [keys.map(encodeText), encodeText(checkOwner(owner))];
    const length = BigInt(withDrift(checkTtl(ttl), this.#drift));
    const storedInfo = storedInfoOf(info);
    return this.#run(() => this.#rows.renew(stored, storedOwner, length, storedInfo), failBusy);
  }

  /** Keys and owner as they are stored. `tokens`: if only these grants are to be released. */
  async #release(
    keys: readonly string[],
    owner: string,
    tokens?: readonly FencingToken[],
  ): Promise<readonly boolean[]> {
    const { keeps } = this.#releases;
    const released = await this.#run(() => this.#rows.release(keys, owner, keeps, tokens), failBusy);
    keys.forEach((key, i) => released[i] === true && this.#releases.wake(key));
    return released;
  }

  /** Tries until the database is not locked. If the timeout passes first, `busy` decides. */
  async #run<T>(operation: () => T, busy: (cause: unknown, timeout: number) => T): Promise<T> {
    const endsAt = performance.now() + this.#timeout;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      if (this.#closed) throw new LeaseStoreError('the SQLite lease store was closed');
      try {
        return operation();
      } catch (error) {
        if (error instanceof LockError) throw error;
        if (!isBusy(error)) throw new LeaseStoreError(`SQLite failed: ${String(error)}`, error);
        if (performance.now() + pause > endsAt) return busy(error, this.#timeout);
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
    }
  }
}

function storedInfoOf(info: string | undefined): string | undefined {
  return info === undefined ? undefined : encodeText(checkInfo(info));
}

function failBusy(cause: unknown, timeout: number): never {
  throw new LeaseStoreError(`the database was locked by others for ${timeout} ms`, cause);
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
  checkNonEmpty(table, 'options.table');
  if (/^[A-Za-z_]\w{0,63}$/.test(table as string)) return table as string;
  throw outOfRange('options.table', 'a name of letters, digits and underscores, at most 64', table);
}
