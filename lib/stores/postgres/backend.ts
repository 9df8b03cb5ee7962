import { codeOf, type LockError } from '../../common/errors.js';
import { LONGEST_DELAY } from '../../common/timers.js';
import { storeDenied } from '../../lease/contract/errors.js';
import { polledReleases } from '../polled-releases.js';
import { NEVER_LATE, type Operation, type TimeLimit } from '../requests.js';
import type { TextRange } from '../exact-text.js';
import { listByPages, pageOf, type Ask, type ListingBackend, type StoredKey } from '../listing.js';
import type {
  Attempt,
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
import { ignore, nameOfKey, repeatable, Upkeep } from '../tables.js';
import type { ReleaseFeed } from '../wakers.js';
import { inTransaction, type Connection, type Statement, type Terms, type Value } from './connection.js';
import { isLost, serverError } from './errors.js';
import { exactTextIn, rowsOf, textIn, type Row } from './results.js';
import { QUICKER, statementsOf, tableOf, topicOf, type Statements } from './statements.js';

/**
 * The maximum length of a stored key, in bytes. Longer keys are hashed. PostgreSQL limits an index entry to
 * 2704 bytes.
 */
const LONGEST_KEY = 1024;
/** Milliseconds to wait before a lost listening session is opened again. */
const RETRY = 250;

/**
 * SQLSTATEs of statements that changed nothing and could not determine the holder. The reasons are
 * serialization failures, deadlocks, and {@link QUICKER}. Serialization failures occur if the default
 * isolation level is `repeatable read` or `serializable`.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set(['40001', '40P01', QUICKER]);
/**
 * SQLSTATEs of prepared statements that fail behind a pooler. A pooler such as pgBouncer may switch
 * connections after each transaction. On the new connection the statement does not exist, already exists, or
 * returns other columns.
 */
const NOT_PREPARED: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);
/** SQLSTATEs for a missing table (or a missing schema of that table), and for a missing column. */
const NO_TABLE: ReadonlySet<unknown> = new Set(['42P01', '42703']);
/** SQLSTATEs for missing rights, a wrong user or password, or a missing database or schema. */
const DENIED: ReadonlySet<unknown> = new Set(['42501', '28000', '28P01', '3D000', '3F000']);
/** The SQLSTATE for a statement inside a transaction in which an earlier statement failed. */
const TRANSACTION_FAILED = '25P02';
/** Leases as rows of a table. Each operation is one statement in an implicit transaction. */
export class PostgresBackend implements ListingBackend {
  readonly title = 'PostgreSQL';
  readonly releaseFeed: ReleaseFeed;
  readonly #connection: Connection;
  readonly #statements: Statements;
  /**
   * The maximum time for which a statement waits for locks, as a value for the server's setting
   * `lock_timeout`.
   */
  readonly #limit: string;
  readonly #upkeep = new Upkeep(() =>
    this.#ask(this.#statements.schema(this.#limit), [], { prepare: false, operation: NEVER_LATE }),
  );
  #prepare = true;

  /** `table` may include a schema. `timeout` is in milliseconds. */
  constructor(connection: Connection, table: string, timeout: number) {
    this.#connection = connection;
    const names = tableOf(table);
    this.#statements = statementsOf(names);
    // The server reads 0 as "no limit".
    this.#limit = `${Math.min(Math.max(1, Math.ceil(timeout)), LONGEST_DELAY)}ms`;
    const open = connection.listen?.bind(connection, names.channel);
    this.releaseFeed = open
      ? { retryAfter: RETRY, topicOf, open }
      : polledReleases((awaited) => this.#held(awaited));
  }

  nameOf(key: string): string {
    return nameOfKey(key, LONGEST_KEY);
  }

  retries(error: unknown, { failure }: Operation): boolean {
    return error === failure || COLLISIONS.has(codeOf(error));
  }

  permanent(error: unknown): LockError | undefined {
    const code = codeOf(error);
    if (code === TRANSACTION_FAILED) return inTransaction();
    return DENIED.has(code) ? storeDenied(this.title, error) : undefined;
  }

  async acquire(wanted: Wanted, { known }: Attempt, operation: Operation): Promise<Granted | Refused> {
    const { names, owner, length, info } = wanted;
    const { acquire, acquireAll } = this.#statements;
    const { isSubscribed } = operation;
    const floors = known.map(String);
    const isOne = names.length === 1;
    const [key, floor] = isOne ? [names[0], floors[0]] : [JSON.stringify(names), JSON.stringify(floors)];
    const values = [key!, owner, String(length), floor!, info ?? null, this.#limit, String(isSubscribed)];
    const rows = await this.#run(isOne ? acquire : acquireAll, values, operation);
    const granted = rows.filter((row) => textIn(row, 'token') !== null);
    if (granted.length > 0) return this.#granting(wanted, granted);
    const held = rows.find((row) => textIn(row, 'remaining') !== null);
    if (held === undefined) return { place: 0 };
    return refusal(held, isOne ? 0 : Number(exactTextIn(held, 'place')) - 1, isSubscribed);
  }

  async renew(keys: readonly Renewing[], operation: Operation): Promise<(boolean | undefined)[]> {
    const { renew, renewAll } = this.#statements;
    if (keys.length === 1) {
      const { name, owner, length, info } = keys[0]!;
      const values = [name, owner, String(length), info ?? null, this.#limit];
      return [(await this.#run(renew, values, operation)).length > 0];
    }
    const lists = [
      keys.map(({ name }) => name),
      keys.map(({ owner }) => owner),
      keys.map(({ length }) => length),
      keys.map(({ info = null }) => info),
    ].map((list) => JSON.stringify(list));
    const rows = await this.#run(renewAll, lists, operation);
    return byPlace(keys, rows).map(
      (row) => row !== undefined && (textIn(row, 'done') === 'true' || undefined),
    );
  }

  async keep({ name, owner, length, token, keptOwner }: Keeping, operation: Operation): Promise<boolean> {
    const values = [name, owner, String(length), String(token), this.#limit, keptOwner];
    return (await this.#run(this.#statements.keep, values, operation)).length > 0;
  }

  release(keys: readonly Releasing[], operation: Operation): Promise<(Release | undefined)[]> {
    return repeatable(operation, isLost, async () => {
      const rows = await this.#free(keys, operation);
      return byPlace(keys, rows).map((row) => {
        if (row === undefined) return 'not held';
        if (keys.length > 1 && textIn(row, 'done') !== 'true') return undefined;
        return textIn(row, 'waited') === 'true' ? 'freed' : 'unnotified';
      });
    });
  }

  takeBack({ name, owner, token }: Releasing, wasUsed: boolean, operation: Operation): Promise<Release> {
    const values = [name, owner, String(token), this.#limit, String(wasUsed)];
    return this.#releaseOne(this.#statements.takeBack, values, operation);
  }

  async acquireShared(
    { name, reader, length }: WantedShared,
    { known }: Attempt,
    operation: Operation,
  ): Promise<GrantedShared | Refused> {
    const { isSubscribed } = operation;
    const values = [name, reader, String(length), String(known[0]), this.#limit, String(isSubscribed)];
    const [row] = await this.#run(this.#statements.acquireShared, values, operation);
    if (row === undefined) return { place: 0 };
    if (textIn(row, 'token') === null) return refusal(row, 0, isSubscribed);
    this.#purgeIfDue(1);
    return {
      token: BigInt(exactTextIn(row, 'token')),
      group: exactTextIn(row, 'owner'),
      abandoned: exactTextIn(row, 'abandoned') === 'true',
    };
  }

  releaseShared(name: string, reader: string, operation: Operation): Promise<Release> {
    return this.#releaseOne(this.#statements.releaseShared, [name, reader, this.#limit], operation);
  }

  async putOffReaders(name: string, milliseconds: number, operation: Operation): Promise<boolean> {
    const values = [name, String(milliseconds), this.#limit];
    return (await this.#run(this.#statements.putOffReaders, values, operation)).length > 0;
  }

  async inspect(name: string, operation: Operation): Promise<StoredLease | undefined> {
    const [row] = await this.#run(this.#statements.inspect, [name], operation);
    return row && leaseOf(row);
  }

  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async ({ from, after, to }, asked) => {
      const rows = await ask((operation) => {
        return this.#run(this.#statements.list, [from, after, to, String(asked)], operation);
      });
      return pageOf(
        rows.map((row) => ({ text: exactTextIn(row, 'key'), ...leaseOf(row) })),
        asked,
      );
    });
  }

  close(): void {
    this.#connection.close?.();
  }

  /** Runs a statement that releases one key. */
  async #releaseOne(statement: Statement, values: readonly Value[], operation: Operation): Promise<Release> {
    const [release] = await repeatable(operation, isLost, async () => {
      const [row] = await this.#run(statement, values, operation);
      if (row === undefined) return ['not held'];
      const waited = textIn(row, 'waited');
      if (waited === 'left') return ['left'];
      return [waited === 'true' ? 'freed' : 'unnotified'];
    });
    return release!;
  }

  #free(keys: readonly Releasing[], operation: Operation): Promise<readonly Row[]> {
    const { release, releaseAll } = this.#statements;
    if (keys.length === 1) {
      const { name, owner, token } = keys[0]!;
      const values = [name, owner, token === undefined ? null : String(token), this.#limit];
      return this.#run(release, values, operation);
    }
    const lists = [
      keys.map(({ name }) => name),
      keys.map(({ owner }) => owner),
      keys.map(({ token }) => (token === undefined ? null : String(token))),
    ].map((list) => JSON.stringify(list));
    return this.#run(releaseAll, lists, operation);
  }

  /** Returns the names of those keys that are held. */
  async #held(names: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await this.#run(this.#statements.held, [JSON.stringify(names)], NEVER_LATE);
    return new Set(rows.map((row) => exactTextIn(row, 'key')));
  }

  /** Call after each grant, with the number of granted keys. */
  #purgeIfDue(keys: number): void {
    if (this.#upkeep.isPurgeDue(keys)) this.#runAside(this.#statements.purge, []);
  }

  #granting({ names, owner }: Wanted, rows: readonly Row[]): Granted {
    this.#purgeIfDue(names.length);
    const granted = byPlace(names, rows);
    const tokens = granted.map((row) => exactTextIn(row, 'token'));
    const giveBack = (place: number): void =>
      this.#runAside(this.#statements.takeBack, [names[place]!, owner, tokens[place]!, this.#limit, 'false']);
    const abandoned = granted.map((row) => exactTextIn(row, 'abandoned') === 'true');
    return { tokens: tokens.map(BigInt), abandoned, giveBack };
  }

  async #run(
    statement: Statement,
    values: readonly Value[],
    operation: TimeLimit,
    isCreated = false,
  ): Promise<readonly Row[]> {
    const prepare = this.#prepare;
    try {
      return await this.#ask(statement, values, { prepare, operation });
    } catch (error) {
      const code = codeOf(error);
      const isMissing = NO_TABLE.has(code);
      if (prepare && NOT_PREPARED.has(code)) this.#prepare = false;
      else if (isMissing && !isCreated) await this.#upkeep.create(operation);
      else throw error;
      return this.#run(statement, values, operation, isCreated || isMissing);
    }
  }

  async #ask(statement: Statement, values: readonly Value[], terms: Terms): Promise<readonly Row[]> {
    try {
      return rowsOf(await this.#connection.run(statement, values, terms));
    } catch (error) {
      throw serverError(error);
    }
  }

  /**
   * Runs a background statement. No caller waits for the result, so there is no time limit, and `close` does
   * not stop it.
   */
  #runAside(statement: Statement, values: readonly Value[]): void {
    this.#connection.run(statement, values, { prepare: this.#prepare, operation: NEVER_LATE }).catch(ignore);
  }
}

/** The refusal of an attempt. `held`: the row of the key with the index `place`. */
function refusal(held: Row, place: number, isSubscribed: boolean): Refused {
  const isRegistered = textIn(held, 'marked') === 'true';
  // If this store is subscribed but the row is not marked, the row changed before the statement could mark
  // it. The release would not notify this store, so the store must retry at once.
  const wakeIn = isSubscribed && !isRegistered ? 0 : Number(textIn(held, 'remaining'));
  return { place, wakeIn, isRegistered };
}

function leaseOf(row: Row): StoredLease {
  return {
    owner: exactTextIn(row, 'owner'),
    token: BigInt(exactTextIn(row, 'token')),
    remaining: Number(exactTextIn(row, 'remaining')),
    info: textIn(row, 'info') ?? '',
  };
}

/**
 * Returns the row of each key, in the order of the keys. If there are several keys, each row has a column
 * `place` with the position of its key, counted from 1.
 */
function byPlace(keys: readonly unknown[], rows: readonly Row[]): readonly (Row | undefined)[] {
  if (keys.length === 1) return [rows[0]];
  const places = new Map(rows.map((row) => [Number(exactTextIn(row, 'place')), row]));
  return keys.map((_, i) => places.get(i + 1));
}
