import { invalidArgType, LockError } from '../../common/errors.js';
import { NOT_ASKED, type TimeLimit } from '../requests.js';
import { ignore } from '../tables.js';

export type Row = Readonly<Record<string, unknown>>;

/** The server's answer to a statement. */
export interface Answer {
  readonly rows: readonly Row[];
  /** The value that the statement set with LAST_INSERT_ID(expr); 0 if it set none. */
  readonly id: bigint;
  /**
   * The number of changed rows. With some client options, this includes rows that already had the new values.
   */
  readonly changed: number;
}

/** The client operations that the store uses, independent of the library. */
export interface Connection {
  /**
   * Runs a statement as a separate transaction. Rejects with a LockError (ERR_LEASE_IN_TRANSACTION) inside a
   * transaction of the caller. The statement is not sent if the operation is late.
   */
  run(sql: string, operation: TimeLimit): Promise<Answer>;
  /** Removes the listeners that were added to the client. */
  close?(): void;
}

/**
 * The bit of the server's status that is set while a transaction is open. Without autocommit, it is also set
 * after a write.
 */
const IN_TRANSACTION = 1;
/**
 * Whether the server reported the error with this number. Errors of the client or the operating system have
 * other numbers, or texts instead of numbers.
 */
const isFromServer = (errno: unknown): boolean =>
  typeof errno === 'number' && errno >= 1000 && errno < 45_000 && !(errno >= 2000 && errno < 3000);
/**
 * Errors of a server that is shutting down, closed the connection, is read-only, or lacks the majority of its
 * cluster. After such an error, a new connection may lead to another server.
 */
const ENDED: ReadonlySet<unknown> = new Set([1047, 1053, 1290, 1836, 1927, 4031]);

/**
 * Returns the `errno` of an error. If a pool of `mariadb` timed out, the server's error is the cause of the
 * pool's error.
 */
export function errnoOf(error: unknown): unknown {
  const { errno, cause } = (error ?? {}) as { errno?: unknown; cause?: unknown };
  return isFromServer(errno) || cause === undefined ? errno : errnoOf(cause);
}

/**
 * Whether the connection is still usable after the error. It is usable if nothing was sent, or if the server
 * only rejected the statement.
 */
export function leavesUsable(error: unknown): boolean {
  if (error === NOT_ASKED) return true;
  const { errno } = error as { errno?: unknown };
  return isFromServer(errno) && !ENDED.has(errno);
}

function inTransaction(): LockError {
  return new LockError(
    'ERR_LEASE_IN_TRANSACTION',
    'a transaction is open on the client, or its autocommit is off: no other client would see a lease acquired in it ' +
      'before the commit, and a rollback would remove the lease. Give the store a separate client, or a pool, with autocommit',
  );
}

/**
 * Rethrows an error. If the connection was already closed before the statement, throws a LockError
 * (ERR_LEASE_CLIENT_ENDED) instead, because the connection never reconnects.
 */
function explain(error: unknown): never {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (code !== 'ER_CMD_CONNECTION_CLOSED' && !/connection is in closed state$/.test(String(message)))
    throw error;
  throw new LockError(
    'ERR_LEASE_CLIENT_ENDED',
    'the connection of the store was lost, or was ended, and never connects again: make a new connection and a new store, ' +
      'or give the store a pool',
    { cause: error },
  );
}

/** A client of either library, with promises. */
interface Client {
  query(query: object): Promise<unknown>;
  on(event: 'error', listener: () => void): unknown;
  removeListener(event: 'error', listener: () => void): unknown;
  /** The server's status after the last statement. Only `mariadb` provides it. */
  readonly info?: { readonly status?: number } | null;
}

type PooledClient = Client & { release(): unknown; destroy(): void };

interface Pool {
  getConnection(): Promise<PooledClient>;
}

/** Sends a statement through one of the libraries, regardless of the options of the client. */
type Send = (client: Client, sql: string) => Promise<Answer & { readonly status: number }>;

interface Header {
  readonly insertId?: bigint | number | string;
  readonly affectedRows?: number;
  readonly serverStatus?: number;
}

const answerOf = (result: unknown, status: number): Awaited<ReturnType<Send>> => {
  if (Array.isArray(result)) return { rows: result as Row[], id: 0n, changed: 0, status };
  const { insertId = 0, affectedRows = 0 } = result as Header;
  return { rows: [], id: BigInt(insertId), changed: affectedRows, status };
};

const MYSQL2 = {
  rowsAsArray: false,
  nestTables: false,
  typeCast: (_: unknown, next: () => unknown) => next(),
};

const sendByMysql2: Send = async (client, sql) => {
  const [result] = (await client.query({ ...MYSQL2, sql })) as [unknown];
  return answerOf(result, (result as Header).serverStatus ?? 0);
};

const MARIADB = {
  rowsAsArray: false,
  nestTables: false,
  typeCast: undefined,
  metaAsArray: false,
  namedPlaceholders: false,
  insertIdAsNumber: false,
  supportBigNumbers: false,
};

const sendByMariadb: Send = async (client, sql) =>
  answerOf(await client.query({ ...MARIADB, sql }), client.info?.status ?? 0);

async function runOn(client: Client, send: Send, sql: string, operation: TimeLimit): Promise<Answer> {
  if (operation.isLate) throw NOT_ASKED;
  const answer = await send(client, sql);
  // The status is checked after the statement, because a BEGIN may have been in flight before the statement.
  if ((answer.status & IN_TRANSACTION) !== 0) throw inTransaction();
  return answer;
}

/** Each statement checks a connection out of the pool while it runs. */
class PoolConnection implements Connection {
  readonly #pool: Pool;
  readonly #send: Send;

  constructor(pool: Pool, send: Send) {
    this.#pool = pool;
    this.#send = send;
  }

  async run(sql: string, operation: TimeLimit): Promise<Answer> {
    const client = await this.#pool.getConnection();
    let isUsable = true;
    try {
      return await runOn(client, this.#send, sql, operation);
    } catch (error) {
      isUsable = leavesUsable(error);
      throw error;
    } finally {
      if (isUsable) Promise.resolve(client.release()).catch(ignore);
      else client.destroy();
    }
  }
}

/** Statements share the single connection and run one at a time. */
class ClientConnection implements Connection {
  readonly #client: Client;
  readonly #send: Send;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: Client, send: Send) {
    this.#client = client;
    this.#send = send;
    // Without a listener, the error of a lost idle connection would end the process. Each operation reports
    // its own failure.
    client.on('error', ignore);
  }

  run(sql: string, operation: TimeLimit): Promise<Answer> {
    const result = this.#last.then(() => runOn(this.#client, this.#send, sql, operation).catch(explain));
    this.#last = result.catch(ignore);
    return result;
  }

  close(): void {
    this.#client.removeListener('error', ignore);
  }
}

/** Returns the connection for the caller's client or pool. `name`: the option's name, for error messages. */
export function connectionOf(client: unknown, name: string): Connection {
  const isObject = typeof client === 'object' && client !== null;
  const given = (isObject ? client : {}) as { [name: string]: unknown; promise?(): typeof given };
  // A client with `mysql2`'s callback API has a method that returns the same client with the promise API.
  const shape = typeof given.promise === 'function' ? given.promise() : given;
  const has = (method: string): boolean => typeof shape[method] === 'function';
  const isMariadb = has('batch');
  // In `mariadb`'s callback API, `query` has one more parameter.
  const isUsable = isMariadb
    ? (shape['query'] as { length?: number }).length === 2
    : has('execute') && has('query');
  if (!isUsable) throw invalidArgType(name, 'a pool or a connection of mysql2 or mariadb', client);
  const send = isMariadb ? sendByMariadb : sendByMysql2;
  return has('getConnection')
    ? new PoolConnection(shape as unknown as Pool, send)
    : new ClientConnection(shape as unknown as Client, send);
}
