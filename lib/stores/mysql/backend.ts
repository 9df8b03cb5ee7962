import { LockError } from '../../common/errors.js';
import { warnOnce } from '../../common/warnings.js';
import { storeDenied } from '../../lease/contract/errors.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import { groupName } from '../../lease/contract/shared.js';
import { polledReleases } from '../polled-releases.js';
import { NEVER_LATE, Operation, type TimeLimit } from '../requests.js';
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
import { errnoOf, leavesUsable, type Answer, type Connection } from './clients.js';
import {
  isReader,
  LOWEST_TOKEN,
  OUT_OF_RANGE,
  READ_ROW,
  statementsOf,
  wasAbandoned,
  type Statements,
} from './statements.js';

/** The maximum length of a stored key, in bytes: the size of the column `name`. Longer keys are hashed. */
const LONGEST_KEY = 512;
/** The maximum of the server's setting `lock_wait_timeout`, in seconds. */
const LONGEST_WAIT = 31_536_000;
/**
 * Errors of statements that changed nothing and could not determine the holder. The reasons are: a deadlock;
 * a wait for a locked row that timed out; a row that changed under MariaDB's snapshot isolation; a commit
 * that group replication rolled back; or another owner that briefly held one of several keys.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set([1020, 1205, 1213, 3101, OUT_OF_RANGE]);
const NO_TABLE = 1146;
/** Error numbers for missing rights, a wrong user or password, or a missing database. */
const DENIED: ReadonlySet<unknown> = new Set([1044, 1045, 1049, 1142, 1143, 1227, 1698, 1820, 1862]);
/** Whether the connection is lost, or the server accepts no connections now. */
const isLost = (error: unknown): boolean => !(error instanceof LockError) && !leavesUsable(error);

const FORGETS =
  'the MySQL server forgets the leases of the last second if it is killed, because innodb_flush_log_at_trx_commit is 0: ' +
  'set it to 1';

/** The state of free keys when they were read. */
interface Seen {
  /** The highest token of the keys. */
  readonly token: FencingToken;
  /** The names of the abandoned keys. */
  readonly abandoned: ReadonlySet<string>;
}

/**
 * Leases as rows of a table. Each statement is a separate transaction, so no row stays locked between two
 * requests.
 */
export class MysqlBackend implements ListingBackend {
  readonly title = 'MySQL';
  readonly releaseFeed = polledReleases((names) => this.#held(names));
  readonly #connection: Connection;
  readonly #statements: Statements;
  /**
   * A prefix of every statement: an SQL comment that only MariaDB executes. The comment limits how long the
   * statement waits for locks.
   */
  readonly #limit: string;
  readonly #upkeep = new Upkeep(() => this.#create());
  #isFlushKnown = false;

  /** `table` may include a database. `timeout` is in milliseconds. */
  constructor(connection: Connection, table: string, timeout: number) {
    this.#connection = connection;
    this.#statements = statementsOf(table);
    const seconds = Math.min(Math.max(1, Math.ceil(timeout / 1000)), LONGEST_WAIT);
    this.#limit = `/*M! SET STATEMENT innodb_lock_wait_timeout = ${seconds}, lock_wait_timeout = ${seconds} FOR */ `;
  }

  nameOf(key: string): string {
    return nameOfKey(key, LONGEST_KEY);
  }

  retries(error: unknown, { failure }: Operation): boolean {
    return error === failure || COLLISIONS.has(errnoOf(error));
  }

  permanent(error: unknown): LockError | undefined {
    return DENIED.has(errnoOf(error)) ? storeDenied(this.title, error) : undefined;
  }

  async acquire(
    wanted: Wanted,
    { known, isAwaited }: Attempt,
    operation: Operation,
  ): Promise<Granted | Refused> {
    const { names } = wanted;
    let highest = highestOf(known);
    let abandoned: ReadonlySet<string> = new Set();
    // If the statement for several keys is refused, the server may have to undo changes. A read is cheaper
    // than that, so a waiting store reads first.
    if (isAwaited && names.length > 1) {
      const seen = await this.#look(wanted, operation);
      if ('place' in seen) return seen;
      highest = highestOf([highest, seen.token]);
      abandoned = seen.abandoned;
    }
    for (;;) {
      try {
        const { id } = await this.#run(this.#statements.acquire(wanted, highest, abandoned), operation);
        return id < LOWEST_TOKEN ? { place: 0, wakeIn: Number(id) } : this.#granting(wanted, id, abandoned);
      } catch (error) {
        if (errnoOf(error) !== OUT_OF_RANGE) throw error;
        const seen = await this.#look(wanted, operation);
        if ('place' in seen) return seen;
        // Another owner held a key during the statement, and has released the key since. The error makes the
        // store retry the operation after a pause.
        if (seen.token <= highest && areEqual(seen.abandoned, abandoned)) throw error;
        highest = highestOf([highest, seen.token]);
        abandoned = seen.abandoned;
      }
    }
  }

  async renew(keys: readonly Renewing[], operation: Operation): Promise<(boolean | undefined)[]> {
    const { renew, renewAll } = this.#statements;
    if (keys.length === 1) return [(await this.#run(renew(keys[0]!), operation)).id > 0n];
    const { length, info } = keys[0]!;
    // Each key with a different length or `info` text needs a separate request.
    const alike = keys.filter((key) => key.length === length && key.info === info);
    const { changed } = await this.#run(renewAll(alike), operation);
    if (changed === alike.length) return keys.map((key) => alike.includes(key) || undefined);
    const owned = await this.#owned(keys, operation);
    return keys.map(({ name }) => (owned.has(name) ? undefined : false));
  }

  async keep(key: Keeping, operation: Operation): Promise<boolean> {
    return (await this.#run(this.#statements.keep(key), operation)).id > 0n;
  }

  release(keys: readonly Releasing[], operation: Operation): Promise<(Release | undefined)[]> {
    return repeatable(operation, isLost, async () => {
      const { release, releaseAll } = this.#statements;
      if (keys.length === 1) {
        return [(await this.#run(release(keys[0]!), operation)).id > 0n ? 'unnotified' : 'not held'];
      }
      const before = await this.#owned(keys, operation);
      const own = keys.filter(({ name }) => before.has(name));
      if (own.length === 0) return keys.map(() => 'not held');
      const { changed } = await this.#run(releaseAll(own), operation);
      // Every release changes the key's row. If fewer rows changed than there are keys, some rows were locked
      // by another transaction, or their keys were no longer held.
      const left = changed === own.length ? new Set() : await this.#owned(own, operation);
      return keys.map(({ name }) => {
        if (!before.has(name)) return 'not held';
        return left.has(name) ? undefined : 'unnotified';
      });
    });
  }

  takeBack(key: Releasing, wasUsed: boolean, operation: Operation): Promise<Release> {
    return this.#releaseOne(this.#statements.takeBack(key, wasUsed), operation);
  }

  async acquireShared(
    wanted: WantedShared,
    { known }: Attempt,
    operation: Operation,
  ): Promise<GrantedShared | Refused> {
    const { name, reader } = wanted;
    const { id } = await this.#run(this.#statements.acquireShared(wanted, known[0]!), operation);
    if (id < READ_ROW) return { place: 0, wakeIn: Number(id) };
    this.#granted(1);
    if (id >= LOWEST_TOKEN) return { token: id, group: groupName(reader, id), abandoned: false };
    // The row is read even if the operation is late, because the store then gives the grant back.
    const lease = await this.inspect(name, NEVER_LATE);
    if (lease === undefined || !isReader(lease, reader)) {
      // The lease may have expired or been revoked since the reader was granted the key. Or a proxy has sent the
      // read to another server, which does not have the reader yet.
      this.releaseShared(name, reader, new Operation(false)).catch(() => undefined);
      return { place: 0 };
    }
    return { token: lease.token, group: lease.owner, abandoned: wasAbandoned(lease) };
  }

  releaseShared(name: string, reader: string, operation: Operation): Promise<Release> {
    return this.#releaseOne(this.#statements.releaseShared(name, reader), operation);
  }

  async putOffReaders(name: string, milliseconds: number, operation: Operation): Promise<boolean> {
    return (await this.#run(this.#statements.putOffReaders(name, milliseconds), operation)).id > 0n;
  }

  async inspect(name: string, operation: TimeLimit): Promise<StoredLease | undefined> {
    const [row] = (await this.#run(this.#statements.inspect(name), operation)).rows;
    return row && leaseOf(row);
  }

  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async (range, asked) => {
      const { rows } = await ask((operation) => this.#run(this.#statements.list(range, asked), operation));
      return pageOf(
        rows.map((row) => ({ text: textOf(row['name']), ...leaseOf(row) })),
        asked,
      );
    });
  }

  close(): void {
    this.#connection.close?.();
  }

  /**
   * Reads the keys. Returns a refusal for the first key that another owner holds. If there is no such key,
   * returns the state of the keys.
   */
  async #look({ names, owner }: Wanted, operation: Operation): Promise<Refused | Seen> {
    const { rows } = await this.#run(this.#statements.look(names, owner), operation);
    const held = rows.filter((row) => Number(row['held']) === 1);
    const wakeIns = new Map(held.map(({ name, remaining }) => [textOf(name), Number(remaining)]));
    const place = names.findIndex((name) => wakeIns.has(name));
    if (place >= 0) return { place, wakeIn: wakeIns.get(names[place]!)! };
    return {
      token: highestOf(rows.map(({ token }) => BigInt(textOf(token)))),
      abandoned: namesIn({ rows: rows.filter((row) => Number(row['abandoned']) === 1) }),
    };
  }

  /** Returns the names of the keys that their owners hold. */
  async #owned(keys: readonly (Renewing | Releasing)[], operation: Operation): Promise<ReadonlySet<string>> {
    return namesIn(await this.#run(this.#statements.owned(keys), operation));
  }

  /** Returns the names of those keys that are held. */
  async #held(names: readonly string[]): Promise<ReadonlySet<string>> {
    return namesIn(await this.#run(this.#statements.held(names), NEVER_LATE));
  }

  /** Runs a statement that releases one key. */
  async #releaseOne(sql: string, operation: Operation): Promise<Release> {
    const [release] = await repeatable(operation, isLost, async () => {
      return [(await this.#run(sql, operation)).id > 0n ? 'unnotified' : 'not held'];
    });
    return release!;
  }

  /** Call after each grant, with the number of granted keys. */
  #granted(keys: number): void {
    if (this.#upkeep.isPurgeDue(keys)) this.#purge().catch(ignore);
    if (!this.#isFlushKnown) this.#checkFlush().catch(ignore);
    this.#isFlushKnown = true;
  }

  #granting({ names, owner }: Wanted, token: FencingToken, abandoned: ReadonlySet<string>): Granted {
    this.#granted(names.length);
    const giveBack = (place: number): void => {
      const key = { name: names[place]!, owner, token };
      this.#run(this.#statements.takeBack(key, false), NEVER_LATE).catch(ignore);
    };
    return { tokens: names.map(() => token), abandoned: names.map((name) => abandoned.has(name)), giveBack };
  }

  /**
   * Deletes only old rows whose tokens are not above the floor, and then raises the floor for the next purge.
   * A client that creates a deleted row again reads the floor, so the new token is higher than the deleted
   * one.
   */
  async #purge(): Promise<void> {
    const { old, purge, raiseFloor } = this.#statements;
    const { rows } = await this.#run(old, NEVER_LATE);
    if (rows.length === 0) return;
    const floor = BigInt(textOf(rows[0]!['floor']));
    const tokens = rows.map(({ token }) => BigInt(textOf(token)));
    const covered = rows.filter((_, i) => tokens[i]! <= floor).map(({ name }) => name as Buffer);
    if (covered.length > 0) await this.#run(purge(covered, floor), NEVER_LATE);
    const highest = highestOf(tokens);
    if (highest > floor) await this.#run(raiseFloor(highest), NEVER_LATE);
  }

  /** Warns if the server may lose leases when it is killed. Called once per store, after its first grant. */
  async #checkFlush(): Promise<void> {
    const [row] = (await this.#run(this.#statements.flush, NEVER_LATE)).rows;
    if (Number(row?.['flush']) === 0) warnOnce('STRIPELOCK_MYSQL_FLUSH', FORGETS);
  }

  async #run(sql: string, operation: TimeLimit, isCreated = false): Promise<Answer> {
    try {
      return await this.#connection.run(this.#limit + sql, operation);
    } catch (error) {
      if (errnoOf(error) !== NO_TABLE || isCreated) throw error;
      await this.#upkeep.create(operation);
      return this.#run(sql, operation, true);
    }
  }

  async #create(): Promise<void> {
    for (const sql of this.#statements.schema) await this.#connection.run(this.#limit + sql, NEVER_LATE);
  }
}

/** Converts the value of a text column to a string. Clients return such a value as bytes or as a string. */
const textOf = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString() : (value as string));

function leaseOf({ owner, token, remaining, info }: Answer['rows'][number]): StoredLease {
  return {
    owner: textOf(owner),
    token: BigInt(textOf(token)),
    remaining: Number(remaining),
    info: info === null ? '' : textOf(info),
  };
}

const highestOf = (tokens: readonly FencingToken[]): FencingToken =>
  tokens.reduce((highest, token) => (token > highest ? token : highest), 0n);

const areEqual = (one: ReadonlySet<string>, other: ReadonlySet<string>): boolean =>
  one.size === other.size && [...one].every((name) => other.has(name));

const namesIn = ({ rows }: Pick<Answer, 'rows'>): ReadonlySet<string> =>
  new Set(rows.map(({ name }) => textOf(name)));
