import { queueMicrotask } from '../../common/host.js';
import { NOT_ASKED } from '../requests.js';
import { ignore } from '../tables.js';
import type { ReleaseListener } from '../wakers.js';
import { inTransaction, type Connection, type Statement, type Terms, type Value } from './connection.js';
import { exactTextIn, rowsOf } from './results.js';

/** Reads whether the session is inside a transaction that has written something. */
const OPEN = 'SELECT (txid_current_if_assigned() IS NOT NULL)::text AS open';

/** Throws if the result of {@link OPEN} shows an open transaction. */
function checkClosed(result: unknown): void {
  if (exactTextIn(rowsOf(result)[0], 'open') === 'true') throw inTransaction();
}

/** The part of the package `postgres` that subscribes to channels. */
interface Listens {
  listen(channel: string, released: (payload: string) => void, subscribed: () => void): Promise<unknown>;
}

/** A subscription of one client to one channel. All stores on the client share it. */
interface Channel {
  readonly listeners: Set<ReleaseListener>;
  isSubscribed: boolean;
}

const channels = new WeakMap<Listens, Map<string, Channel>>();

/**
 * Subscribes to a channel with the package `postgres`. That package keeps the subscription in a separate
 * session until the client is ended, and renews the subscription after a lost connection. The returned
 * function removes only the listener. The subscription itself stays, so each channel is subscribed to only
 * once.
 *
 * If the server refuses LISTEN but keeps the session, the library retries only after that session is lost.
 * Version 3.4.9 may also mistake a failure of the previous session for a refused LISTEN, with the same
 * effect. Waiters poll until the library subscribes again.
 */
function subscribeToChannel(client: Listens, name: string, listener: ReleaseListener): () => void {
  let ofClient = channels.get(client);
  if (ofClient === undefined) channels.set(client, (ofClient = new Map<string, Channel>()));
  const channel = ofClient.get(name) ?? begin(client, name);
  ofClient.set(name, channel);
  const { listeners } = channel;
  listeners.add(listener);
  if (channel.isSubscribed) queueMicrotask(() => listeners.has(listener) && listener.subscribed());
  return () => listeners.delete(listener);
}

function begin(client: Listens, name: string): Channel {
  const channel: Channel = { listeners: new Set(), isSubscribed: false };
  const released = (payload: string): void => {
    for (const listener of [...channel.listeners]) listener.released(payload);
  };
  const subscribed = (): void => {
    channel.isSubscribed = true;
    for (const listener of [...channel.listeners]) listener.subscribed();
  };
  client.listen(name, released, subscribed).catch(ignore);
  return channel;
}

/** A pool: the object that `postgres()` of the package `postgres` returns, or a `new SQL()` in Bun. */
export interface PostgresJs extends Listens {
  unsafe(text: string, values?: Value[], options?: { prepare?: boolean }): Promise<unknown>;
  readonly options?: { readonly max?: number };
  /** Only a reserved connection has this method. */
  release?(): unknown;
}

export class PostgresJsConnection implements Connection {
  readonly #sql: PostgresJs;

  constructor(sql: PostgresJs) {
    this.#sql = sql;
  }

  async run({ text }: Statement, values: readonly Value[], { prepare, operation }: Terms): Promise<unknown> {
    // Only an object that the library's `begin` passed to its callback has this property. So the caller is
    // inside a transaction.
    if ('savepoint' in this.#sql) throw inTransaction();
    if (operation.isLate) throw NOT_ASKED;
    const result = await this.#sql.unsafe(text, [...values], { prepare });
    // With more than one connection, the library itself refuses BEGIN. So the check is needed only for a
    // single connection.
    if (this.#sql.options?.max === 1 || this.#sql.release) checkClosed(await this.#sql.unsafe(OPEN));
    return result;
  }

  listen(channel: string, listener: ReleaseListener): () => void {
    // Inside a transaction, the client has no method `listen`. The store grants nothing there, so it needs no
    // notifications.
    if (typeof this.#sql.listen !== 'function') return ignore;
    return subscribeToChannel(this.#sql, channel, listener);
  }
}

/** A client that has only the method `query`. See `PostgresQueryClient`. */
interface QueryClient {
  query(text: string, values: Value[]): PromiseLike<unknown>;
}

/**
 * A client with only `query` does not show whether it is a pool, a single session, or bound to a transaction.
 * So after each statement, a second statement reads whether a transaction is open. If the client is a pool,
 * the second statement may run in another session. That is harmless, because a pool has no transaction of the
 * caller.
 */
export class QueryConnection implements Connection {
  readonly #client: QueryClient;

  constructor(client: QueryClient) {
    this.#client = client;
  }

  async run({ text }: Statement, values: readonly Value[], { operation }: Terms): Promise<unknown> {
    if (operation.isLate) throw NOT_ASKED;
    const result = await this.#client.query(text, [...values]);
    checkClosed(await this.#client.query(OPEN, []));
    return result;
  }
}

/** An in-process PGlite database. */
export interface PgLite extends QueryClient {
  listen(channel: string, released: (payload: string) => void): Promise<() => Promise<unknown>>;
}

export class PgLiteConnection extends QueryConnection {
  readonly #database: PgLite;

  constructor(database: PgLite) {
    super(database);
    this.#database = database;
  }

  listen(channel: string, { released, subscribed, lost }: ReleaseListener): () => void {
    const begun = this.#database.listen(channel, released);
    begun.then(subscribed, lost);
    return () => void begun.then((unlisten) => unlisten()).catch(ignore);
  }
}
