import { NOT_ASKED } from '../requests.js';
import { ignore } from '../tables.js';
import type { ReleaseListener } from '../wakers.js';
import {
  clientEnded,
  inTransaction,
  type Connection,
  type Statement,
  type Terms,
  type Value,
} from './connection.js';

/** A `Client` of `pg`. */
export interface PgClient {
  query(query: string | { name?: string; text: string; values: Value[] }): Promise<unknown>;
  connect(): Promise<unknown>;
  end(): Promise<unknown>;
  unref?(): void;
  on(event: string, listener: (message: never) => void): unknown;
  removeListener(event: string, listener: (message: never) => void): unknown;
  /**
   * Returns the server's transaction status: I (idle), T (in a transaction) or E (in a failed transaction).
   * Exists since version 8.17.
   */
  getTransactionStatus?(): string | null;
  readonly connection?: {
    on?(event: 'readyForQuery', listener: (message: { status?: string }) => void): unknown;
  };
}

/** A client that is checked out of its pool. */
type PooledClient = PgClient & { release(destroy?: boolean): void };

/** A `Pool` of `pg`. */
export interface PgPool {
  connect(connected: (error: Error | undefined, client: PooledClient | undefined) => void): void;
  on(event: 'error', listener: () => void): unknown;
  removeListener(event: 'error', listener: () => void): unknown;
  readonly options: object;
  readonly Client: new (options: object) => PgClient;
}

/** The last transaction status of each client, for versions of `pg` that do not expose the status. */
const statuses = new WeakMap<object, { now: string | undefined }>();

function statusOf(client: PgClient): string | null | undefined {
  if (typeof client.getTransactionStatus === 'function') return client.getTransactionStatus();
  const known = statuses.get(client);
  if (known) return known.now;
  const status: { now: string | undefined } = { now: undefined };
  statuses.set(client, status);
  client.connection?.on?.('readyForQuery', (message) => (status.now = message.status));
  return undefined;
}

function isOpen(client: PgClient): boolean {
  const status = statusOf(client);
  return status === 'T' || status === 'E';
}

async function runOn(
  client: PgClient,
  { name, text }: Statement,
  values: readonly Value[],
  { prepare, operation }: Terms,
): Promise<unknown> {
  if (operation.isLate) throw NOT_ASKED;
  if (isOpen(client)) throw inTransaction();
  const given = [...values];
  // This code runs for each statement. Building a single object, with a spread for the optional `name`, would
  // cost more than a microsecond.
  const result = await client.query(prepare ? { name, text, values: given } : { text, values: given });
  // The transaction status is checked again, because the caller's BEGIN may have been in flight before this
  // statement.
  if (isOpen(client)) throw inTransaction();
  return result;
}

/**
 * Adds the listeners of a subscription to a client. The returned function removes the listeners, then calls
 * `end`.
 */
function subscribeOn(
  client: PgClient,
  channel: string,
  { released, lost }: ReleaseListener,
  end: () => void,
): () => void {
  const listener = (message: { channel: string; payload?: string }): void => {
    if (message.channel === channel) released(message.payload ?? '');
  };
  client.on('notification', listener);
  client.on('end', lost);
  return () => {
    client.removeListener('notification', listener);
    client.removeListener('end', lost);
    end();
  };
}

/**
 * Each statement checks a client out of the pool while it runs. Notifications arrive on a separate client.
 */
export class PoolConnection implements Connection {
  readonly #pool: PgPool;

  constructor(pool: PgPool) {
    this.#pool = pool;
    // Without a listener, the error of a lost idle connection would end the process. Each operation reports
    // its own failure.
    pool.on('error', ignore);
  }

  async run(statement: Statement, values: readonly Value[], terms: Terms): Promise<unknown> {
    const client = await this.#take();
    let isUsable = true;
    try {
      return await runOn(client, statement, values, terms);
    } catch (error) {
      isUsable = leavesUsable(error);
      throw error;
    } finally {
      client.removeListener('error', ignore);
      client.release(!isUsable);
    }
  }

  /**
   * Checks a client out of the pool, and adds an error listener to it. The pool ignores the errors of a
   * client that is checked out. The listener is added in a callback, because the continuation of a promise
   * would run too late: a single packet may both complete and end the connection, and then the events for
   * both fire before any continuation runs.
   */
  #take(): Promise<PooledClient> {
    return new Promise((resolve, reject) => {
      this.#pool.connect((error, client) => {
        client?.on('error', ignore);
        if (client) resolve(client);
        else reject(error!);
      });
    });
  }

  listen(channel: string, listener: ReleaseListener): () => void {
    const client = new this.#pool.Client(this.#pool.options);
    client.on('error', ignore);
    const close = subscribeOn(client, channel, listener, () => {
      client.end().catch(ignore);
      // If the server hangs and never answers, the connection must not keep the process alive.
      client.unref?.();
    });
    client
      .connect()
      .then(() => client.query(`LISTEN ${channel}`))
      .then(listener.subscribed, listener.lost);
    return close;
  }

  close(): void {
    this.#pool.removeListener('error', ignore);
  }
}

/**
 * Whether the connection is still usable after the error. It is usable if nothing was sent, or if the server
 * reported the error.
 */
function leavesUsable(error: unknown): boolean {
  return error === NOT_ASKED || (error as { severity?: unknown }).severity === 'ERROR';
}

/**
 * Rethrows an error. If the client's connection has ended, throws a LockError (ERR_LEASE_CLIENT_ENDED)
 * instead, because the client never reconnects.
 */
function explain(error: unknown): never {
  if (error instanceof Error && error.message.endsWith('not queryable')) throw clientEnded(error);
  throw error;
}

/** Statements share the single client and run one at a time. Notifications arrive on the same client. */
export class ClientConnection implements Connection {
  readonly #client: PgClient;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: PgClient) {
    this.#client = client;
    client.on('error', ignore);
  }

  run(statement: Statement, values: readonly Value[], terms: Terms): Promise<unknown> {
    return this.#next(() => runOn(this.#client, statement, values, terms).catch(explain));
  }

  listen(channel: string, listener: ReleaseListener): () => void {
    const close = subscribeOn(this.#client, channel, listener, () => {
      this.#next(() => this.#client.query(`UNLISTEN ${channel}`)).catch(ignore);
    });
    this.#next(() => this.#client.query(`LISTEN ${channel}`)).then(listener.subscribed, listener.lost);
    return close;
  }

  close(): void {
    this.#client.removeListener('error', ignore);
  }

  #next<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#last.then(operation);
    this.#last = result.catch(ignore);
    return result;
  }
}
