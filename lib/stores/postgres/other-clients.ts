import { hearOnChannel, type Listens } from './channels.js';
import { ignore, inTransaction, NOT_ASKED, type Connection, type Hearing } from './connection.js';
import type { Row, Statement, Terms } from './connection.js';

/** Whether a transaction is open that has written, on the session of the statement before. */
const OPEN = 'SELECT txid_current_if_assigned() IS NOT NULL AS open';

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
    { prepare, isWanted }: Terms,
  ): Promise<readonly Row[]> {
    // What `begin` passes to its function.
    if ('savepoint' in this.#sql) throw inTransaction();
    if (!isWanted()) throw NOT_ASKED;
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
  listen(channel: string, heard: (payload: string) => void, ready: () => void): Hearing {
    // In a transaction, where nothing is granted.
    if (typeof this.#sql.listen !== 'function') return { close: ignore };
    return hearOnChannel(this.#sql, channel, { heard, ready });
  }

  close(): void {
    // Nothing was added.
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

  async run({ text }: Statement, values: readonly unknown[], { isWanted }: Terms): Promise<readonly Row[]> {
    if (!isWanted()) throw NOT_ASKED;
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

  listen(channel: string, heard: (payload: string) => void, ready: () => void, lost: () => void): Hearing {
    const begun = this.#database.listen(channel, heard);
    begun.then(ready, lost);
    return { close: () => void begun.then((unlisten) => unlisten()).catch(ignore) };
  }

  close(): void {
    // Nothing was added.
  }
}
