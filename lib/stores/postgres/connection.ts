import { LockError } from '../../common/errors.js';
import type { TimeLimit } from '../requests.js';
import type { ReleaseListener } from '../wakers.js';

/** A statement, and the name under which the server may prepare it. Different texts have different names. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** The value of a parameter or a column: a text or NULL, because no client converts these. */
export type Value = string | null;

/** How a statement is run. */
export interface Terms {
  /** Whether the server may prepare the statement under its name. */
  readonly prepare: boolean;
  /** The operation that the statement belongs to. If the operation is late, the statement is not sent. */
  readonly operation: TimeLimit;
}

/** The client operations that the store uses, independent of the library. */
export interface Connection {
  /**
   * Runs a statement in an implicit transaction, and resolves with the client's result: see `rowsOf`. Rejects
   * with a LockError (ERR_LEASE_IN_TRANSACTION) inside a transaction of the caller.
   */
  run(statement: Statement, values: readonly Value[], terms: Terms): Promise<unknown>;
  /**
   * Subscribes to a channel in a session that stays open. The returned function ends the subscription, or the
   * attempt to connect, and does not throw. The method is undefined if the client cannot listen.
   */
  listen?(channel: string, listener: ReleaseListener): () => void;
  /** Removes the listeners that were added to the client. */
  close?(): void;
}

export function inTransaction(): LockError {
  return new LockError(
    'ERR_LEASE_IN_TRANSACTION',
    'a transaction is open on the client: no other client would see a lease acquired in it before the commit, and a ' +
      'rollback would remove the lease. Give the store a separate client, or a pool',
  );
}

export function clientEnded(cause: Error): LockError {
  return new LockError(
    'ERR_LEASE_CLIENT_ENDED',
    'the client of the PostgreSQL store was ended, or is a Client of pg that has lost its connection, and never connects ' +
      'again: make a new client and a new store. A Pool of pg replaces lost connections',
    { cause },
  );
}
