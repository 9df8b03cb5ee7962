import { invalidArgType } from '../../common/errors.js';
import type { Connection } from './connection.js';
import { PgLiteConnection, PostgresJsConnection, type PgLite, type PostgresJs } from './other-clients.js';
import { ClientConnection, PoolConnection, type PgClient, type PgPool } from './pg.js';

/**
 * The caller's client: a `Pool` or a connected `Client` of `pg`, what `postgres()` of the package `postgres` returns, or a
 * `PGlite`.
 */
export type PostgresClient = object;

type Shape = Readonly<Record<string, unknown>>;

/** `name`: of the option. */
export function connectionOf(client: unknown, name: string): Connection {
  const isShape = (typeof client === 'object' && client !== null) || typeof client === 'function';
  const shape = (isShape ? client : {}) as Shape;
  const has = (...methods: string[]): boolean =>
    methods.every((method) => typeof shape[method] === 'function');
  if (has('unsafe') && (has('listen') || 'savepoint' in shape)) {
    return new PostgresJsConnection(client as PostgresJs);
  }
  if (has('query', 'exec', 'listen')) return new PgLiteConnection(client as PgLite);
  if (has('query', 'connect', 'on') && 'totalCount' in shape) return new PoolConnection(client as PgPool);
  if (has('query', 'connect', 'on')) return new ClientConnection(client as PgClient);
  throw invalidArgType(name, 'a client of pg, postgres or PGlite', client);
}
