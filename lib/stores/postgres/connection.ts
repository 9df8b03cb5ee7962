import { LockError } from '../../common/errors.js';
import type { Ears } from '../wakers.js';

/** A statement, and a name under which the server may keep it: two texts never have the same name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export type Row = Readonly<Record<string, unknown>>;

/** What a statement needs besides its parameters. */
export interface Terms {
  /** Whether the server may keep the statement under its name. */
  readonly prepare: boolean;
  /** If the caller does not wait any more, the statement is not sent. */
  readonly operation: { readonly isLate: boolean };
}

/** What the store needs of a client, whatever its library. */
export interface Connection {
  /**
   * Runs a statement, which is a transaction by itself. Rejects with a LockError (ERR_LEASE_IN_TRANSACTION) inside a
   * transaction of the caller.
   */
  run(statement: Statement, values: readonly unknown[], terms: Terms): Promise<readonly Row[]>;
  /** Runs several statements without parameters as one transaction. */
  script(text: string): Promise<unknown>;
  /**
   * Hears what is notified on a channel, in a session that stays. Returns a function that ends it, and attempts to connect,
   * and does not throw.
   */
  listen(channel: string, ears: Ears): () => void;
  /** Removes what was added to the client, if anything was. */
  close?(): void;
}

export function inTransaction(): LockError {
  return new LockError(
    'ERR_LEASE_IN_TRANSACTION',
    'a transaction is open on the client: others would not see a lease that is taken in it before it commits, and it ' +
      'would be lost if the transaction rolls back. Give the store a client of its own, or a pool',
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
