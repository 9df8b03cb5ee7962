import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { timerNow } from '../../common/elapsed.js';
import { invalidArgType, LockError } from '../../common/errors.js';
import { messageOf } from '../../lease/contract/errors.js';

export type SqliteValue = string | bigint;
export type SqliteRow = Readonly<Record<string, SqliteValue | null>>;

/** A prepared statement that returns integers as bigints. */
export interface SqliteStatement {
  get(...parameters: SqliteValue[]): SqliteRow | undefined;
  all(...parameters: SqliteValue[]): readonly SqliteRow[];
  run(...parameters: (SqliteValue | null)[]): { readonly changes: number | bigint };
}

/** The methods that `node:sqlite`, `better-sqlite3` and `bun:sqlite` have in common. */
export interface SqliteDatabase {
  /** Compiles a reusable statement. */
  prepare(sql: string): unknown;
  /** Runs statements without results. */
  exec(sql: string): unknown;
}

interface DriverStatement {
  /** Returns null in bun:sqlite, and undefined in the other libraries, if no row matches. */
  get(...parameters: SqliteValue[]): SqliteRow | null | undefined;
  all(...parameters: SqliteValue[]): readonly SqliteRow[];
  run(...parameters: (SqliteValue | null)[]): { readonly changes: number | bigint };
  setReadBigInts?(enabled: boolean): void;
  safeIntegers?(enabled: boolean): unknown;
}

interface Driver extends SqliteDatabase {
  prepare(sql: string): DriverStatement;
  close(): unknown;
  /** Whether a transaction is open. Exists in node:sqlite, from Node 22.16. */
  readonly isTransaction?: boolean;
  /** Whether a transaction is open. Exists in better-sqlite3 and bun:sqlite. */
  readonly inTransaction?: boolean;
}

/** SQLite's codes for a database that another connection has locked. */
const LOCKED = { BUSY: 5, LOCKED: 6 };
/** SQLite's codes for a file or connection that cannot be written. */
const DENIED = { PERM: 3, READONLY: 8, AUTH: 23 };
const PRIMARY_CODE = 0xff;

/**
 * Milliseconds for which {@link Connection.checkInPlace} caches its result, because looking up the file takes
 * a tenth of the time of an acquisition.
 */
const CHECKED_FOR = 10;

/** Identifies the file of an open database. */
interface OpenFile {
  readonly file: string;
  readonly device: number;
  readonly inode: number;
}

/** A database of any of the three libraries, opened by the caller or by the store. */
export class Connection {
  readonly #driver: Driver;
  /** Undefined for a database in memory, and on platforms without inode numbers. */
  readonly #file: OpenFile | undefined;
  readonly #isOwn: boolean;
  #inPlaceAt = -Infinity;

  constructor(database: unknown, isOwn = false) {
    const candidate = database as Partial<Driver> | null | undefined;
    const complete =
      typeof candidate === 'object' &&
      candidate !== null &&
      typeof candidate.prepare === 'function' &&
      typeof candidate.exec === 'function';
    if (!complete) {
      throw invalidArgType(
        'options.database',
        'a DatabaseSync of node:sqlite, or a database of better-sqlite3 or bun:sqlite',
        database,
      );
    }
    this.#driver = candidate as Driver;
    this.#isOwn = isOwn;
    this.#file = fileOf(this.#driver);
  }

  /**
   * Opens a file with node:sqlite. Throws a LockError (ERR_NO_SQLITE) if this version of Node lacks that
   * module.
   */
  static open(file: string): Connection {
    const sqlite = process.getBuiltinModule('node:sqlite') as
      { DatabaseSync: new (path: string) => Driver } | undefined;
    if (sqlite === undefined) {
      throw new LockError(
        'ERR_NO_SQLITE',
        `Node ${process.version} has no node:sqlite (22.13 and later have): give a better-sqlite3 database as options.database`,
      );
    }
    return new Connection(
      openFile(() => new sqlite.DatabaseSync(file), file),
      true,
    );
  }

  /**
   * False if the file was deleted, moved or replaced after it was opened. Other processes then use another
   * file, and do not see what this connection writes.
   */
  get isInPlace(): boolean {
    const file = this.#file;
    if (file === undefined) return true;
    const now = statOf(file.file);
    return now?.device === file.device && now.inode === file.inode;
  }

  /**
   * Throws a LockError (ERR_SQLITE_FILE) if {@link isInPlace} is false. A result of true is cached for
   * {@link CHECKED_FOR}.
   */
  checkInPlace(): void {
    const now = timerNow();
    if (now - this.#inPlaceAt < CHECKED_FOR) return;
    if (this.isInPlace) {
      this.#inPlaceAt = now;
      return;
    }
    throw new LockError(
      'ERR_SQLITE_FILE',
      `the SQLite file ${this.#file!.file} was deleted, moved or replaced while the store had it open: other processes do ` +
        'not see its leases. Make a new store',
    );
  }

  /**
   * Prepares the file for the first use. If another process opens or closes the file at the same moment,
   * SQLite reports the database as locked at once, regardless of the busy timeout. The store then retries the
   * operation, as it does whenever the database is locked.
   */
  prepareFile(): void {
    // In WAL mode, readers never block a writer. A database in memory has no WAL mode, and ignores this
    // statement.
    this.prepare('PRAGMA journal_mode = WAL').get();
    // In WAL mode, this setting makes commits faster and cannot corrupt the file. A power failure may lose
    // the last commits, but leases tolerate that.
    if (this.#isOwn) this.exec('PRAGMA synchronous = NORMAL');
  }

  prepare(sql: string): SqliteStatement {
    const statement = this.#driver.prepare(sql);
    if (statement.setReadBigInts) statement.setReadBigInts(true);
    else statement.safeIntegers?.(true);
    return {
      get: (...parameters) => statement.get(...parameters) ?? undefined,
      all: (...parameters) => statement.all(...parameters),
      run: (...parameters) => statement.run(...parameters),
    };
  }

  exec(sql: string): void {
    this.#driver.exec(sql);
  }

  /** Closes the database if the store opened it. */
  close(): void {
    if (this.#isOwn) this.#driver.close();
  }

  /** Throws a LockError (ERR_LEASE_IN_TRANSACTION) while the caller has a transaction open. */
  checkOutsideTransaction(): void {
    const open = this.#driver.isTransaction ?? this.#driver.inTransaction ?? this.#beginFails();
    if (!open) return;
    throw new LockError(
      'ERR_LEASE_IN_TRANSACTION',
      'a transaction is open on the database: no other connection would see a lease acquired in it before the commit, ' +
        'and a rollback would remove the lease. Give the store a separate connection',
    );
  }

  /**
   * Whether BEGIN fails because a transaction is open. Used for drivers that do not report open transactions.
   * SQLite gives this error no specific code, so the message is tested.
   */
  #beginFails(): boolean {
    try {
      this.exec('BEGIN');
    } catch (error) {
      return /within a transaction/.test((error as Error).message);
    }
    this.exec('COMMIT');
    return false;
  }
}

function openFile(open: () => Driver, file: string): Driver {
  try {
    return open();
  } catch (cause) {
    const folder = path.dirname(file);
    const why = existsSync(folder) ? messageOf(cause) : `the folder ${folder} does not exist`;
    throw new LockError('ERR_SQLITE_FILE', `cannot open the SQLite file ${file}: ${why}`, { cause });
  }
}

function fileOf(driver: Driver): OpenFile | undefined {
  try {
    const main = driver
      .prepare('PRAGMA database_list')
      .all()
      .find(({ name }) => name === 'main');
    const file = main?.['file'];
    return typeof file === 'string' && file !== '' ? statOf(file) : undefined;
  } catch {
    // The driver cannot read the database. The store's first operation reports the problem.
    return undefined;
  }
}

function statOf(file: string): OpenFile | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined || stat.ino === 0 ? undefined : { file, device: stat.dev, inode: stat.ino };
}

/** Whether an operation failed only because another connection had locked the database. */
export function isBusy(error: unknown): boolean {
  return isOneOf(LOCKED, error);
}

/** Whether an operation failed because the database cannot be written. A retry would fail, too. */
export function isDenied(error: unknown): boolean {
  return isOneOf(DENIED, error);
}

function isOneOf(codes: Readonly<Record<string, number>>, error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  // node:sqlite reports SQLite's extended code as a number. better-sqlite3 and bun:sqlite report it as a
  // name.
  if (typeof errcode === 'number') return Object.values(codes).includes(errcode & PRIMARY_CODE);
  const [, name] = /^SQLITE_([A-Z]+)/.exec(String(code)) ?? [];
  return name !== undefined && Object.hasOwn(codes, name);
}
