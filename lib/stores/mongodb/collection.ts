import { invalidArgType } from '../../common/errors.js';

/**
 * A collection of the official driver, `mongodb` 6 or 7. Only its shape counts, so that neither the driver nor its types
 * are needed here.
 */
export interface MongodbCollection {
  /** Its name in the database. */
  readonly collectionName: string;
  /** For acquisitions. */
  findOneAndUpdate(filter: never, update: never, options: never): Promise<unknown>;
  /** For renewals and releases. */
  updateOne(filter: never, update: never, options: never): Promise<unknown>;
  /** For `inspect`. */
  findOne(filter: never, options: never): Promise<unknown>;
  /** For the TTL index. */
  createIndex(fields: never, options: never): Promise<unknown>;
  /** For a look at the collation. */
  options(options: never): Promise<unknown>;
  /** For change streams. */
  watch(pipeline: never, options: never): object;
}

/** A database of the official driver, `mongodb` 6 or 7. */
export interface MongodbDatabase {
  /** Its name on the server. */
  readonly databaseName: string;
  /** The option of the driver. */
  collection(name: string): MongodbCollection;
}

/** What the store calls, with the arguments that it passes. */
export interface Collection {
  readonly collectionName: string;
  findOneAndUpdate(filter: object, update: readonly object[], options: object): Promise<unknown>;
  updateOne(
    filter: object,
    update: readonly object[],
    options: object,
  ): Promise<{ readonly matchedCount: number }>;
  findOne(filter: object, options: object): Promise<unknown>;
  createIndex(fields: object, options: object): Promise<unknown>;
  options(options: object): Promise<{ readonly collation?: { readonly locale?: string } }>;
  watch(pipeline: readonly object[], options: object): ChangeStream;
}

/** What the store uses of a change stream, which is an emitter of events. */
export interface ChangeStream {
  on(event: string, listener: (argument: unknown) => void): unknown;
  close(): Promise<void>;
}

/**
 * How documents are read, whatever the client's own settings are: 64-bit integers as bigint, which tokens need. The driver
 * throws if a setting of the client's contradicts, so each is given.
 */
export const READING = {
  raw: false,
  promoteValues: true,
  promoteLongs: true,
  useBigInt64: true,
} as const;

const METHODS = ['findOneAndUpdate', 'updateOne', 'findOne', 'createIndex', 'options', 'watch'] as const;
const DEFAULT_NAME = 'stripelock_leases';

/** The collection, or the one of the database that leases are in if no other is named. */
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

/** Whether its client has one connection for everything: a change stream would keep it from all operations. */
export function hasOneConnection(collection: Collection): boolean {
  const { client } = collection as { client?: { options?: { maxPoolSize?: unknown } } };
  return client?.options?.maxPoolSize === 1;
}
