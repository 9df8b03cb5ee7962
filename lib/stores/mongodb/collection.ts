import { invalidArgType } from '../../common/errors.js';

/**
 * A collection of the official driver, `mongodb` 6 or 7. The type lists only the members that the store uses,
 * so that this package needs neither the driver nor its types.
 */
export interface MongodbCollection {
  /** The name of the collection in the database. */
  readonly collectionName: string;
  /** Used for acquisitions. */
  findOneAndUpdate(filter: never, update: never, options: never): Promise<unknown>;
  /** Used for renewals and releases. */
  updateOne(filter: never, update: never, options: never): Promise<unknown>;
  /** Used for `inspect`. */
  findOne(filter: never, options: never): Promise<unknown>;
  /** Used for `list`. Without this method, `list` rejects. */
  find?(filter: never, options: never): object;
  /** Used for the TTL index. */
  createIndex(fields: never, options: never): Promise<unknown>;
  /** Used to read the collation. */
  options(options: never): Promise<unknown>;
  /** Used for change streams. */
  watch(pipeline: never, options: never): object;
}

/** A database of the official driver, `mongodb` 6 or 7. */
export interface MongodbDatabase {
  /** The name of the database on the server. */
  readonly databaseName: string;
  /** The driver's method, which returns a collection. */
  collection(name: string): MongodbCollection;
}

/** The methods that the store calls, with the types of the arguments that it passes. */
export interface Collection {
  readonly collectionName: string;
  findOneAndUpdate(filter: object, update: readonly object[], options: object): Promise<unknown>;
  updateOne(
    filter: object,
    update: readonly object[],
    options: object,
  ): Promise<{ readonly matchedCount: number }>;
  findOne(filter: object, options: object): Promise<unknown>;
  find?(filter: object, options: object): { toArray(): Promise<readonly unknown[]> };
  createIndex(fields: object, options: object): Promise<unknown>;
  options(options: object): Promise<{ readonly collation?: { readonly locale?: string } }>;
  watch(pipeline: readonly object[], options: object): ChangeStream;
}

/** The part of a change stream that the store uses. It is an event emitter. */
export interface ChangeStream {
  on(event: string, listener: (argument: unknown) => void): unknown;
  close(): Promise<void>;
}

/**
 * The settings for reading documents, which override the client's settings. Tokens are 64-bit integers, so
 * the driver must return bigints. All four settings are given, because the driver throws for contradictory
 * settings.
 */
export const READING = {
  raw: false,
  promoteValues: true,
  promoteLongs: true,
  useBigInt64: true,
} as const;

const METHODS = ['findOneAndUpdate', 'updateOne', 'findOne', 'createIndex', 'options', 'watch'] as const;
const DEFAULT_NAME = 'stripelock_leases';

/** The caller's collection, or the default collection of the caller's database. */
export function collectionOf(options: { collection?: unknown; db?: unknown }): Collection {
  const { collection, db } = options;
  if (db === undefined) return checkCollection(collection, 'options.collection');
  if (collection !== undefined) {
    throw invalidArgType('options.collection', 'left out where options.db is given', collection);
  }
  const candidate = asObject<MongodbDatabase>(db);
  if (typeof candidate?.collection !== 'function' || typeof candidate.databaseName !== 'string') {
    throw invalidArgType('options.db', 'a database of the driver mongodb', db);
  }
  return checkCollection(candidate.collection(DEFAULT_NAME), 'options.db.collection()');
}

function checkCollection(collection: unknown, name: string): Collection {
  const candidate = asObject<MongodbCollection>(collection);
  if (METHODS.every((method) => typeof candidate?.[method] === 'function')) return collection as Collection;
  throw invalidArgType(name, 'a collection of the driver mongodb', collection);
}

function asObject<T>(value: unknown): Partial<T> | undefined {
  return typeof value === 'object' && value !== null ? value : undefined;
}

/** Whether the client has a single connection, which a change stream would occupy. */
export function hasOneConnection(collection: Collection): boolean {
  const { client } = collection as { client?: { options?: { maxPoolSize?: unknown } } };
  return client?.options?.maxPoolSize === 1;
}
