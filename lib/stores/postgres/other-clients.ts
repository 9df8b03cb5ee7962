import { queueMicrotask } from '../../common/host.js';
import { NOT_ASKED } from '../requests.js';
import { ignore, inTransaction, type Connection } from './connection.js';
import type { Row, Statement, Terms } from './connection.js';

/** Whether a transaction is open that has written, on the session of the statement before. */
const OPEN = 'SELECT txid_current_if_assigned() IS NOT NULL AS open';

/** The part of the package `postgres` that listens. */
interface Listens {
  listen(
    channel: string,
    heard: (payload: string) => void,
    ready: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>;
}

interface Hearer {
  readonly heard: (payload: string) => void;
  readonly ready: () => void;
}

/**
 * A channel of one client, for all stores that hear it. The library listens again by itself after its session was lost, also
 * where it could not begin, and has no other way to end that than `unlisten`, which works only before the first such loss.
 * Each further call of `listen` would then stay for ever, so there is no other one: what cannot be ended is used again.
 *
 * If the server refuses the LISTEN but keeps the session, the library begins again only when it loses that. So it is, too,
 * where it takes the failure of the session before for that of the LISTEN, as 3.4.9 may. Waiters poll meanwhile.
 */
class Channel {
  readonly #client: Listens;
  readonly #name: string;
  readonly #hearers = new Set<Hearer>();
  /** Whether the library listens, or tries to, or is ending that. */
  #registered = false;
  /** Whether it has begun to hear, and was not told to end that. */
  #hears = false;
  #unlisten: (() => Promise<unknown>) | undefined;

  constructor(client: Listens, name: string) {
    this.#client = client;
    this.#name = name;
  }

  add(hearer: Hearer): () => void {
    this.#hearers.add(hearer);
    if (this.#hears) queueMicrotask(() => this.#hearers.has(hearer) && hearer.ready());
    this.#register();
    return () => {
      this.#hearers.delete(hearer);
      this.#leave();
    };
  }

  #register(): void {
    if (this.#registered || this.#hearers.size === 0) return;
    this.#registered = true;
    const heard = (payload: string): void => {
      for (const hearer of [...this.#hearers]) hearer.heard(payload);
    };
    this.#client
      .listen(this.#name, heard, () => this.#begins())
      .then((listening) => {
        this.#unlisten = () => listening.unlisten();
        this.#leave();
      }, ignore);
  }

  #begins(): void {
    this.#hears = true;
    for (const hearer of [...this.#hearers]) hearer.ready();
  }

  #leave(): void {
    const unlisten = this.#unlisten;
    if (unlisten === undefined || this.#hearers.size > 0) return;
    this.#unlisten = undefined;
    this.#hears = false;
    unlisten().then(
      (answer) => {
        // Without asking the server: the session was lost meanwhile, and the library goes on.
        if (answer === undefined) this.#begins();
        else this.#left();
      },
      () => this.#left(),
    );
  }

  #left(): void {
    this.#registered = false;
    this.#register();
  }
}

const channels = new WeakMap<Listens, Map<string, Channel>>();

/** Hears on a channel of the client. `ready`: see `Connection`. */
function hearOnChannel(client: Listens, name: string, hearer: Hearer): () => void {
  let ofClient = channels.get(client);
  if (ofClient === undefined) channels.set(client, (ofClient = new Map<string, Channel>()));
  let channel = ofClient.get(name);
  if (channel === undefined) ofClient.set(name, (channel = new Channel(client, name)));
  return channel.add(hearer);
}

/** What `postgres()` of the package `postgres` returns: a pool. */
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
    // What `begin` passes to its function.
    if ('savepoint' in this.#sql) throw inTransaction();
    if (operation.isLate) throw NOT_ASKED;
    const rows = await this.#sql.unsafe(text, [...values], { prepare });
    // With more connections, the library itself refuses a BEGIN.
    if (this.#sql.options?.max === 1) {
      const [now] = await this.#sql.unsafe(OPEN);
      if (now?.['open'] === true) throw inTransaction();
    }
    return rows;
  }

  script(text: string): Promise<unknown> {
    return this.#sql.unsafe(text);
  }

  /** The library listens in a session of its own, and again when that was lost: it is never lost for good. */
  listen(channel: string, heard: (payload: string) => void, ready: () => void): () => void {
    // In a transaction, where nothing is granted.
    if (typeof this.#sql.listen !== 'function') return ignore;
    return hearOnChannel(this.#sql, channel, { heard, ready });
  }
}

/** A PGlite database, in this process. */
export interface PgLite {
  query(text: string, values?: unknown[]): Promise<{ rows: Row[] }>;
  exec(text: string): Promise<unknown>;
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<unknown>>;
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

  listen(channel: string, heard: (payload: string) => void, ready: () => void, lost: () => void): () => void {
    const begun = this.#database.listen(channel, heard);
    begun.then(ready, lost);
    return () => void begun.then((unlisten) => unlisten()).catch(ignore);
  }
}
