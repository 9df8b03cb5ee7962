import { codeOf, LockError } from '../../common/errors.js';
import { messageOf } from '../../lease/contract/errors.js';
import { clientEnded } from './connection.js';

/** The properties in which a library's error contains the error of the driver or the server. */
const INNER = ['cause', 'sourceError', 'meta', 'driverAdapterError'] as const;
/**
 * The properties that may contain the SQLSTATE. In Bun, `errno` is the SQLSTATE, and `code` names the kind of
 * error.
 */
const CODES = ['originalCode', 'code', 'errno'] as const;
/**
 * Matches an SQLSTATE of a class that PostgreSQL uses. Other codes, such as EPIPE and Prisma's P2010, also
 * have five characters, so a test of the length would not be enough.
 */
const SQLSTATE = /^(?:\d[\dA-Z]|F0|HV|P0|XX)[\dA-Z]{3}$/;

/**
 * Matches the codes of a lost connection, and of a server that currently accepts no connections. The codes
 * are SQLSTATEs, or come from the operating system or a library.
 */
const LOST =
  /^(?:57P0\d|08\w{3}|P1001|P1017|CONNECTION_CLOSED|CONNECTION_DESTROYED|ERR_POSTGRES_CONNECTION_\w+|E[A-Z]+)$/;
/**
 * Matches the message of a lost connection, because `pg` reports no code for it. Knex adds the statement in
 * front of the message.
 */
const LOST_MESSAGE = /(?:^| - )Connection (?:terminated|ended)/;
/**
 * Matches the messages of pools and clients that have been closed: those of pg, Kysely, TypeORM, Knex and
 * PGlite.
 */
const ENDED_MESSAGE =
  /after calling end on the pool$|driver has already been destroyed$|^Driver not Connected$|^Unable to acquire a connection$|^PGlite is closed$/;

type Layer = Readonly<Record<string, unknown>>;

/** Returns the error and all errors that it wraps. The innermost error is first. */
function layersOf(error: unknown, depth = 0): readonly Layer[] {
  // A wrapper may contain itself.
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const layer = error as Layer;
  return [...INNER.flatMap((name) => layersOf(layer[name], depth + 1)), layer];
}

/**
 * Returns the error of the server or the driver, without the errors in which a library wraps it. If the
 * server reported the error, its `code` is the SQLSTATE.
 */
export function serverError(thrown: unknown): unknown {
  if (thrown instanceof LockError) return thrown;
  const layers = layersOf(thrown);
  for (const layer of layers) {
    const code = CODES.map((name) => layer[name]).find(
      (value) => typeof value === 'string' && SQLSTATE.test(value),
    );
    if (code === undefined) continue;
    if (layer instanceof Error && codeOf(layer) === code) return layer;
    const { originalMessage, message } = layer;
    return Object.assign(new Error(String(originalMessage ?? message), { cause: thrown }), { code });
  }
  const errors = layers.filter((layer): layer is Layer & Error => layer instanceof Error);
  const error = errors.find((layer) => typeof codeOf(layer) === 'string') ?? errors[0];
  if (error === undefined) return thrown;
  const isEnded = codeOf(error) === 'CONNECTION_ENDED' || ENDED_MESSAGE.test(error.message);
  return isEnded ? clientEnded(error) : error;
}

/** Whether a retry on another connection may succeed. `error` is a result of {@link serverError}. */
export function isLost(error: unknown): boolean {
  if (error instanceof LockError) return false;
  return LOST.test(String(codeOf(error))) || LOST_MESSAGE.test(messageOf(error));
}
