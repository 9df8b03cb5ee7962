import { LockError } from '../../common/errors.js';
import type { ReleaseListener } from '../wakers.js';

/** A statement, and the name under which the server may prepare it. Different texts have different names. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Row = Readonly<Record<string, unknown>>;

/** How to run a statement. */
export interface Terms {
  /** Whether the server may prepare the statement under its name. */
  readonly prepare: boolean;
  /** The statement is not sent if the operation is late. */
  readonly operation: { readonly isLate: boolean };
}

/** The client operations that the store uses, independent of the library. */
export interface Connection {
  /**
   * Runs a statement in an implicit transaction. Rejects with a LockError (ERR_LEASE_IN_TRANSACTION) inside a
   * transaction of the caller.
   */
  run(statement: Statement, values: readonly unknown[], terms: Terms): Promise<readonly Row[]>;
  /** Runs several statements without parameters in one transaction. */
  script(text: string): Promise<unknown>;
  /**
   * Subscribes to a channel in a lasting session. The returned function ends the session, or the attempt to connect,
   * and does not throw.
   */
  listen(channel: string, listener: ReleaseListener): () => void;
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
    'the Client of pg has lost its connection, or was ended, and never connects again: make a new Client and a new store, ' +
      'or give the store a Pool',
    { cause },
  );
}

export const ignore = (): void => undefined;
