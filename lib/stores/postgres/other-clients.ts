import { queueMicrotask } from '../../common/host.js';
import { NOT_ASKED } from '../requests.js';
import type { ReleaseListener } from '../wakers.js';
import { ignore, inTransaction, type Connection } from './connection.js';
import type { Row, Statement, Terms } from './connection.js';

/** Whether the session of the previous statement has an open transaction that has written. */
const OPEN = 'SELECT txid_current_if_assigned() IS NOT NULL AS open';

/** The part of the package `postgres` that subscribes. */
interface Listens {
  listen(channel: string, released: (payload: string) => void, subscribed: () => void): Promise<unknown>;
}

/** A subscription that the stores on one client share. */
interface Channel {
  readonly listeners: Set<ReleaseListener>;
  isSubscribed: boolean;
}

const channels = new WeakMap<Listens, Map<string, Channel>>();

/**
 * The library keeps a subscription in a separate session until the client is ended, and renews it after a lost
 * connection. A subscription cannot be removed, so each channel is subscribed only once.
 *
 * If the server refuses LISTEN but keeps the session, the library retries only when it loses that session. The same
 * happens where the library mistakes a failure of the previous session for a failed LISTEN, as 3.4.9 may. Until then,
 * waiters poll.
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

/** The result of `postgres()` of the package `postgres`: a pool. */
export interface PostgresJs extends Listens {
  unsafe(text: string, values?: unknown[], options?: { prepare?: boolean }): Promise<readonly Row[]>;
  readonly options?: { readonly max?: number };
}

export class PostgresJsConnection implements Connection {
  readonly #sql: PostgresJs;

  constructor(sql: PostgresJs) {
    this.#sql = sql;
  }

  async run(
    { text }: Statement,
    values: readonly unknown[],
    { prepare, operation }: Terms,
  ): Promise<readonly Row[]> {
    // True inside `begin`, which passes such an object to its callback.
    if ('savepoint' in this.#sql) throw inTransaction();
    if (operation.isLate) throw NOT_ASKED;
    const rows = await this.#sql.unsafe(text, [...values], { prepare });
    // With more than one connection, the library itself refuses BEGIN.
    if (this.#sql.options?.max === 1) {
      const [now] = await this.#sql.unsafe(OPEN);
      if (now?.['open'] === true) throw inTransaction();
    }
    return rows;
  }

  script(text: string): Promise<unknown> {
    return this.#sql.unsafe(text);
  }

  listen(channel: string, listener: ReleaseListener): () => void {
    // Absent inside a transaction, where nothing is ever granted.
    if (typeof this.#sql.listen !== 'function') return ignore;
    return subscribeToChannel(this.#sql, channel, listener);
  }
}

/** An in-process PGlite database. */
export interface PgLite {
  query(text: string, values?: unknown[]): Promise<{ rows: Row[] }>;
  exec(text: string): Promise<unknown>;
  listen(channel: string, released: (payload: string) => void): Promise<() => Promise<unknown>>;
}

export class PgLiteConnection implements Connection {
  readonly #database: PgLite;

  constructor(database: PgLite) {
    this.#database = database;
  }

  async run({ text }: Statement, values: readonly unknown[], { operation }: Terms): Promise<readonly Row[]> {
    if (operation.isLate) throw NOT_ASKED;
    const { rows } = await this.#database.query(text, [...values]);
    const { rows: now } = await this.#database.query(OPEN);
    if (now[0]?.['open'] === true) throw inTransaction();
    return rows;
  }

  async script(text: string): Promise<unknown> {
    try {
      return await this.#database.exec(`BEGIN; ${text}; COMMIT`);
    } catch (error) {
      await this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  listen(channel: string, { released, subscribed, lost }: ReleaseListener): () => void {
    const begun = this.#database.listen(channel, released);
    begun.then(subscribed, lost);
    return () => void begun.then((unlisten) => unlisten()).catch(ignore);
  }
}
