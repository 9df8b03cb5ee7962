import { setTimeout } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
import { Replies, type Awaited } from '../../lease/contract/replies.js';
import { ignore, type Connection, type Row, type Statement } from './connection.js';
import { QUICKER } from './statements-for-several.js';

/** What to do if an operation is not answered in time. */
export interface Late {
  timedOut(): void;
  /** Called when it was answered after all, or failed without rows. */
  settled(rows?: readonly Row[]): void;
}

/**
 * Nothing was changed, and it says nothing about who has the key: a transaction that could not be put in an order with
 * others, as happens where the default isolation is `repeatable read` or `serializable`, and a deadlock.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set(['40001', '40P01', QUICKER]);
/**
 * What a pooler that hands a connection to another client after each transaction, as pgBouncer may, answers to a statement
 * that was prepared on another one: there is none of that name, or there is one, or what it returns has changed.
 */
const NOT_PREPARED: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);
/** No such table, schema or column. */
const NO_TABLE: ReadonlySet<unknown> = new Set(['42P01', '42703']);
/** Missing rights, a wrong user or password, a database or a schema that does not exist. */
const DENIED: ReadonlySet<unknown> = new Set(['42501', '28000', '28P01', '3D000', '3F000']);
/** The connection has ended, or the server takes none at the moment. `postgres` has words for that, others the SQLSTATE. */
const LOST = /^(?:57P0\d|08\w{3}|CONNECTION_CLOSED|CONNECTION_DESTROYED|E[A-Z]+)$/;
/** Milliseconds between attempts: at first, and at most. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 25;

/** Statements on a connection, each within the time limit. */
export class Requests {
  readonly #replies: Replies;
  readonly #connection: Connection;
  readonly #schema: string;
  #creating: Promise<unknown> | undefined;
  #prepare = true;
  #closed = false;

  /** `timeout`: in milliseconds. `schema`: creates the tables, as soon as they turn out to be missing. */
  constructor(connection: Connection, timeout: number, schema: string) {
    this.#connection = connection;
    this.#replies = new Replies(timeout, 'PostgreSQL');
    this.#schema = schema;
  }

  /**
   * Rejects with a LeaseStoreError if that fails or takes too long, with a LockError inside a transaction of
   * the caller (ERR_LEASE_IN_TRANSACTION), or if the server denies it (ERR_LEASE_STORE_DENIED). `repeats`: whether it asks
   * again on another connection if one is lost, and rejects if it then finds nothing to do. Managers repeat all but releases.
   */
  run(
    statement: Statement,
    values: readonly unknown[],
    late?: Late,
    repeats = false,
  ): Promise<readonly Row[]> {
    if (this.#closed) return Promise.reject(new LeaseStoreError('the PostgreSQL lease store was closed'));
    return new Promise((resolve, reject) => {
      const awaited = this.#replies.expect((error) => {
        late?.timedOut();
        reject(error);
      });
      this.#attempt(statement, values, awaited, repeats).then(
        (rows) => {
          if (this.#replies.arrived(awaited)) resolve(rows);
          else late?.settled(rows);
        },
        (error: unknown) => {
          if (!this.#replies.arrived(awaited)) late?.settled();
          reject(failureOf(error));
        },
      );
    });
  }

  /** Without a time limit, and even if the store was closed: nobody waits for it. */
  runAside(statement: Statement, values: readonly unknown[]): void {
    this.#connection.run(statement, values, { prepare: this.#prepare, isWanted: () => true }).catch(ignore);
  }

  close(): void {
    this.#closed = true;
  }

  async #attempt(
    statement: Statement,
    values: readonly unknown[],
    awaited: Awaited,
    repeats: boolean,
  ): Promise<readonly Row[]> {
    const isWanted = (): boolean => !awaited.isLate;
    let created = false;
    let lost: unknown;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      const prepare = this.#prepare;
      try {
        const rows = await this.#connection.run(statement, values, { prepare, isWanted });
        // The server may have executed the statement although its answer was lost: then there is nothing left to do.
        if (lost !== undefined && rows.length === 0) throw lost as Error;
        return rows;
      } catch (error) {
        if (error === lost) throw error;
        const code = codeOf(error);
        if (prepare && NOT_PREPARED.has(code)) this.#prepare = false;
        else if (NO_TABLE.has(code) && !created) created = await this.#create(isWanted);
        else if (repeats && isLost(error)) lost = error;
        else if (!COLLISIONS.has(code)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause * Math.random()));
    }
  }

  async #create(isWanted: () => boolean): Promise<true> {
    for (;;) {
      try {
        await (this.#creating ??= this.#connection.script(this.#schema));
        return true;
      } catch (error) {
        if (!COLLISIONS.has(codeOf(error)) || !isWanted()) throw error;
      } finally {
        this.#creating = undefined;
      }
    }
  }
}

/** The SQLSTATE of an error of the server. */
function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

/** Whether another connection may do better. Of `pg`, only a message says that one has ended. */
function isLost(error: unknown): boolean {
  if (error instanceof LockError) return false;
  return (
    LOST.test(String(codeOf(error))) || /^Connection terminated|^Connection ended/.test(messageOf(error))
  );
}

function failureOf(error: unknown): LockError {
  if (error instanceof LockError) return error;
  if (DENIED.has(codeOf(error))) return storeDenied('PostgreSQL', error);
  return new LeaseStoreError(`PostgreSQL failed: ${messageOf(error)}`, error);
}
