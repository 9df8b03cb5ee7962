import { createHash } from 'node:crypto';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { codeOf, LockError } from '../../common/errors.js';
import { messageOf, storeDenied } from '../../lease/contract/errors.js';
import { encodeText } from '../exact-text.js';
import type { Operation } from '../requests.js';
import type {
  Attempt,
  Backend,
  Granted,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
} from '../server-store.js';
import type { ReleaseFeed, ReleaseListener } from '../wakers.js';
import { ignore, type Connection, type Row, type Statement } from './connection.js';
import { QUICKER, statementsOf, tableOf, topicOf, type Statements } from './statements.js';

/** Bytes. PostgreSQL limits an index entry to 2704. */
const LONGEST_KEY = 1024;
/** The prefix of a hashed key. No other encoded key starts with it; see `encodeText`. */
const HASHED = '\u{10ffff}sha256:';
/** The number of grants of a store between two purges. */
const PURGE_AFTER = 1000;
/** Milliseconds before a lost listening session is opened again. */
const RETRY = 250;

/**
 * Errors after which nothing was changed and the holder is still unknown: serialization failures, which occur if the
 * default isolation is `repeatable read` or `serializable`, and deadlocks.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set(['40001', '40P01', QUICKER]);
/**
 * Errors of prepared statements behind a pooler that switches connections after each transaction, as pgBouncer may: the
 * statement does not exist there, already exists, or returns other columns.
 */
const NOT_PREPARED: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);
/** The table, schema or column does not exist. */
const NO_TABLE: ReadonlySet<unknown> = new Set(['42P01', '42703']);
/** Rights are missing, the user or password is wrong, or the database or schema does not exist. */
const DENIED: ReadonlySet<unknown> = new Set(['42501', '28000', '28P01', '3D000', '3F000']);
/**
 * The connection was lost, or the server accepts none now. `postgres` uses its own codes for this, the other clients
 * SQLSTATEs.
 */
const LOST = /^(?:57P0\d|08\w{3}|CONNECTION_CLOSED|CONNECTION_DESTROYED|E[A-Z]+)$/;

/** Leases as rows of a table. Each operation is one statement in an implicit transaction. */
export class PostgresBackend implements Backend {
  readonly title = 'PostgreSQL';
  readonly releaseFeed: ReleaseFeed;
  readonly #connection: Connection;
  readonly #statements: Statements;
  /** How long a statement may wait for locks. */
  readonly #limit: string;
  #creating: Promise<unknown> | undefined;
  #prepare = true;
  #granted = 0;

  /** `table` may include a schema. `timeout` is in milliseconds. */
  constructor(connection: Connection, table: string, timeout: number) {
    this.#connection = connection;
    const names = tableOf(table);
    this.#statements = statementsOf(names);
    // The server takes 0 as no limit.
    this.#limit = `${Math.min(Math.max(1, Math.ceil(timeout)), LONGEST_DELAY)}ms`;
    const open = (listener: ReleaseListener): (() => void) => connection.listen(names.channel, listener);
    this.releaseFeed = { retryAfter: RETRY, topicOf, open };
  }

  nameOf(key: string): string {
    const text = encodeText(key);
    if (text.length * 4 <= LONGEST_KEY || Buffer.byteLength(text) <= LONGEST_KEY) return text;
    return HASHED + createHash('sha256').update(text).digest('hex');
  }

  retries(error: unknown, { failure }: Operation): boolean {
    return error === failure || COLLISIONS.has(codeOf(error));
  }

  permanent(error: unknown): LockError | undefined {
    return DENIED.has(codeOf(error)) ? storeDenied(this.title, error) : undefined;
  }

  async acquire(wanted: Wanted, { known }: Attempt, operation: Operation): Promise<Granted | Refused> {
    const { names, owner, length, info } = wanted;
    const { acquire, acquireAll } = this.#statements;
    const { isSubscribed } = operation;
    const floors = known.map(String);
    const isOne = names.length === 1;
    const [key, floor] = isOne ? [names[0], floors[0]] : [JSON.stringify(names), JSON.stringify(floors)];
    const values = [key, owner, length, floor, info ?? null, this.#limit, isSubscribed];
    const rows = await this.#run(isOne ? acquire : acquireAll, values, operation);
    const granted = rows.filter(({ token }) => typeof token === 'string');
    if (granted.length > 0) return this.#granting(wanted, granted);
    const held = rows.find(({ remaining }) => typeof remaining === 'string');
    if (held === undefined) return { place: 0 };
    const isRegistered = held['marked'] === true;
    // This store is subscribed but its wait was not recorded, because the row changed. No notification would come, so
    // retry now.
    const wakeIn = isSubscribed && !isRegistered ? 0 : Number(held['remaining']);
    return { place: isOne ? 0 : Number(held['place']) - 1, wakeIn, isRegistered };
  }

  async renew(keys: readonly Renewing[], operation: Operation): Promise<(boolean | undefined)[]> {
    const { renew, renewAll } = this.#statements;
    if (keys.length === 1) {
      const { name, owner, length, info } = keys[0]!;
      const values = [name, owner, length, info ?? null, this.#limit];
      return [(await this.#run(renew, values, operation)).length > 0];
    }
    const lists = [
      keys.map(({ name }) => name),
      keys.map(({ owner }) => owner),
      keys.map(({ length }) => length),
      keys.map(({ info = null }) => info),
    ].map((list) => JSON.stringify(list));
    const rows = await this.#run(renewAll, lists, operation);
    return byPlace(keys, rows).map((row) => row !== undefined && (row['done'] !== false || undefined));
  }

  async keep({ names, owner, length, tokens }: Wanted, operation: Operation): Promise<boolean> {
    const values = [names[0], owner, length, String(tokens![0]), this.#limit];
    return (await this.#run(this.#statements.keep, values, operation)).length > 0;
  }

  /**
   * Managers retry all operations except releases, so a release is retried here after a lost connection. The lost
   * statement may have been executed. So if the key is not found, it is unknown whether the owner held it.
   */
  async release(keys: readonly Releasing[], operation: Operation): Promise<(Release | undefined)[]> {
    const rows = await this.#free(keys, operation).catch((error: unknown) => {
      if (isLost(error)) operation.failure = error;
      throw error;
    });
    if (rows.length < keys.length && operation.failure !== undefined) {
      const lost = operation.failure as Error;
      operation.failure = undefined;
      throw lost;
    }
    return byPlace(keys, rows).map((row) => {
      if (row === undefined) return 'not held';
      if (row['done'] === false) return undefined;
      return row['waited'] === true ? 'freed' : 'unnotified';
    });
  }

  async inspect(name: string, operation: Operation): Promise<StoredLease | undefined> {
    const [row] = await this.#run(this.#statements.inspect, [name], operation);
    if (row === undefined) return undefined;
    const { owner, token, remaining, info } = row;
    return {
      owner: String(owner),
      token: BigInt(String(token)),
      remaining: Number(remaining),
      info: typeof info === 'string' ? info : '',
    };
  }

  close(): void {
    this.#connection.close?.();
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

  #granting({ names, owner }: Wanted, rows: readonly Row[]): Granted {
    const before = Math.floor(this.#granted / PURGE_AFTER);
    this.#granted += names.length;
    if (Math.floor(this.#granted / PURGE_AFTER) > before) this.#runAside(this.#statements.purge, []);
    const tokens = byPlace(names, rows).map((row) => String(row!['token']));
    const giveBack = (place: number): void =>
      this.#runAside(this.#statements.release, [names[place], owner, tokens[place], this.#limit]);
    return { tokens: tokens.map(BigInt), giveBack };
  }

  async #run(
    statement: Statement,
    values: readonly unknown[],
    operation: Operation,
    isCreated = false,
  ): Promise<readonly Row[]> {
    const prepare = this.#prepare;
    try {
      return await this.#connection.run(statement, values, { prepare, operation });
    } catch (error) {
      const isMissing = NO_TABLE.has(codeOf(error));
      if (prepare && NOT_PREPARED.has(codeOf(error))) this.#prepare = false;
      else if (isMissing && !isCreated) await this.#create();
      else throw error;
      return this.#run(statement, values, operation, isCreated || isMissing);
    }
  }

  #create(): Promise<unknown> {
    this.#creating ??= this.#connection.script(this.#statements.schema(this.#limit)).finally(() => {
      this.#creating = undefined;
    });
    return this.#creating;
  }

  /** Runs without a time limit, even after `close`, because no caller waits for the result. */
  #runAside(statement: Statement, values: readonly unknown[]): void {
    const terms = { prepare: this.#prepare, operation: { isLate: false } };
    this.#connection.run(statement, values, terms).catch(ignore);
  }
}

/** Returns the row of each key. A single-key statement does not return a place. */
function byPlace(keys: readonly unknown[], rows: readonly Row[]): readonly (Row | undefined)[] {
  if (keys.length === 1) return [rows[0]];
  const places = new Map(rows.map((row) => [Number(row['place']), row]));
  return keys.map((_, i) => places.get(i + 1));
}

/** Whether another connection may succeed. `pg` reports a lost connection only in the message. */
function isLost(error: unknown): boolean {
  if (error instanceof LockError) return false;
  return (
    LOST.test(String(codeOf(error))) || /^Connection terminated|^Connection ended/.test(messageOf(error))
  );
}
