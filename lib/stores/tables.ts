import { createHash } from 'node:crypto';
import { invalidArgType, outOfRange } from '../common/errors.js';
import { checkNonEmpty } from '../lease/contract/lease-store.js';
import { encodeText, MARK } from './exact-text.js';
import type { Operation, TimeLimit } from './requests.js';
import type { Release } from './server-store.js';
import { SharedWork } from './shared-work.js';

/** Parts shared by the stores that keep leases in a database table. */

const DEFAULT_TABLE = 'stripelock_leases';
/** A store purges old rows each time it has received this many grants. */
const PURGE_AFTER = 1000;
/** The prefix of a hashed key. No other encoded key starts with it; see `encodeText`. */
const HASHED = `${MARK}sha256:`;
/**
 * Matches the name of a hashed key. A list of leases contains this name instead of the key, because the key
 * itself is not stored.
 */
const HASH_NAME = new RegExp(`^${HASHED}[\\da-f]{64}$`, 'u');

/**
 * Checks the option `table`. The name becomes part of SQL, where parameters are not possible. PostgreSQL
 * truncates names to 63 bytes, and MySQL refuses more than 64.
 */
export function checkTable(table: unknown): string {
  if (table === undefined) return DEFAULT_TABLE;
  const name = checkNonEmpty(table, 'options.table');
  if (/^(?:[A-Za-z_]\w{0,62}\.)?[A-Za-z_]\w{0,49}$/.test(name)) return name;
  throw outOfRange(
    'options.table',
    'a name of letters, digits and underscores, at most 50, perhaps after that of a schema and a dot',
    name,
  );
}

/** The caller's client, and the name of its option for error messages. */
export function clientOf(options: { client?: unknown; pool?: unknown }): [client: unknown, name: string] {
  const { client, pool } = options;
  if (pool === undefined) return [client, 'options.client'];
  if (client === undefined) return [pool, 'options.pool'];
  throw invalidArgType('options.client', 'left out where options.pool is given', client);
}

/**
 * The name of a key in the table: its encoded text, or the hash of that text if the text has more than
 * `longest` bytes. A list of leases contains the hash instead of the key, so callers may also pass the hash
 * as the key.
 */
export function nameOfKey(key: string, longest: number): string {
  const text = encodeText(key);
  if (text !== key && HASH_NAME.test(key)) return key;
  if (text.length * 4 <= longest || Buffer.byteLength(text) <= longest) return text;
  return HASHED + createHash('sha256').update(text).digest('hex');
}

/**
 * Runs a release. Lease managers do not retry releases, so the store repeats a release after the connection
 * was lost. The database may already have executed the first statement. If the owner does not hold a key when
 * the repeated statement runs, there are two possible causes: the first statement released the key, or the
 * lease had expired before. Because the cause is unknown, the release then rejects with the error of the lost
 * connection.
 */
export async function repeatable(
  operation: Operation,
  isLost: (error: unknown) => boolean,
  release: () => Promise<(Release | undefined)[]>,
): Promise<(Release | undefined)[]> {
  const releases = await release().catch((error: unknown) => {
    if (isLost(error)) operation.failure = error;
    throw error;
  });
  if (operation.failure !== undefined && releases.includes('not held')) {
    const lost = operation.failure as Error;
    operation.failure = undefined;
    throw lost;
  }
  return releases;
}

/** Counts the grants of a store, and creates the store's tables if they are missing. */
export class Upkeep {
  readonly #creation: SharedWork;
  #granted = 0;

  constructor(create: () => Promise<unknown>) {
    this.#creation = new SharedWork(create, false);
  }

  /** Creates the tables. Simultaneous calls share one attempt. */
  create(limit: TimeLimit): Promise<void> {
    return this.#creation.done(limit);
  }

  /** Call after each grant, with the number of granted keys. Returns whether a purge is due. */
  isPurgeDue(keys: number): boolean {
    const before = Math.floor(this.#granted / PURGE_AFTER);
    this.#granted += keys;
    return Math.floor(this.#granted / PURGE_AFTER) > before;
  }
}

/** Handles the rejection of a promise that no caller waits for. */
export const ignore = (): void => undefined;
