import { codeOf, LockError } from '../../common/errors.js';
import { LONGEST_DELAY, settledWithin } from '../../common/timers.js';
import { answerWithin } from '../../lease/contract/replies.js';
import { messageOf, storeDenied } from '../../lease/contract/errors.js';
import { NOT_ASKED, type Operation } from '../requests.js';
import { cannotList } from '../../lease/contract/listing.js';
import type { TextRange } from '../exact-text.js';
import { groupIn, putOffUntilIn } from '../group-text.js';
import {
  listByPages,
  pageOf,
  type Ask,
  type ListingBackend,
  type PageRange,
  type StoredKey,
} from '../listing.js';
import type {
  Attempt,
  Granted,
  GrantedShared,
  Keeping,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
  WantedShared,
} from '../server-store.js';
import { SharedWork } from '../shared-work.js';
import type { ReleaseFeed, ReleaseListener } from '../wakers.js';
import { hasOneConnection, READING, type Collection } from './collection.js';
import {
  acquiring,
  acquiringShared,
  FIELDS,
  foundIn,
  FREEING,
  GROUP_FIELDS,
  heldBy,
  heldByEither,
  heldByGroup,
  heldIn,
  idOf,
  keeping,
  leaving,
  NO_OWNER,
  puttingOff,
  RELEASES,
  renewing,
  TAKING_UNUSED,
  TAKING_USED,
  TTL_INDEX,
} from './statements.js';

/** Milliseconds to wait before a failed change stream is opened again. */
const RETRY = 1000;
/**
 * The limit in milliseconds for each of the two waits when a stream is closed: first until the stream is
 * open, and then until it is closed.
 */
const CLOSES_IN = 1000;

/**
 * Error codes that mean that another client created or changed the same document at the same time. Nothing
 * was changed, and the holder is unknown, so the operation is retried.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set([11000, 112]);
/**
 * Errors of servers that lack pipeline updates, `$$NOW` in such updates, or expressions in a projection. The
 * codes mean: failed to parse, no such command, option not supported, no such operator, not implemented,
 * undefined variable, unknown stage. 303 and 304 come from Amazon's engine.
 */
const NOT_UNDERSTOOD: ReadonlySet<unknown> = new Set([9, 59, 72, 115, 168, 238, 303, 304, 17276, 40324]);
/** The code for a bad value. Some servers use it instead of the codes in {@link NOT_UNDERSTOOD}. */
const BAD_VALUE = 2;
const UNAUTHORIZED = 13;
/** Error codes for missing rights, and for a wrong user or password. */
const DENIED: ReadonlySet<unknown> = new Set([UNAUTHORIZED, 18]);
/**
 * Error codes that mean that the user may not create indexes, or that the field already has an index with
 * other options.
 */
const NO_INDEX: ReadonlySet<unknown> = new Set([UNAUTHORIZED, 85, 86]);
const ignore = (): void => undefined;

/** Leases as documents of a collection. Each operation is one command to the primary. */
export class MongodbBackend implements ListingBackend {
  readonly title = 'MongoDB';
  readonly releaseFeed: ReleaseFeed | undefined;
  readonly nameOf = idOf;
  readonly #collection: Collection;
  readonly #reading: object;
  readonly #onPrimary: object;
  readonly #writing: object;
  readonly #writeConcern: object;
  readonly #prepared = new SharedWork(() => this.#prepare(), true);

  /** `timeout` is in milliseconds. */
  constructor(collection: Collection, timeout: number) {
    this.#collection = collection;
    // The server reads 0 as "no limit", and refuses a limit above the longest timer delay.
    const maxTimeMS = Math.max(1, Math.ceil(timeout));
    const isLimited = maxTimeMS <= LONGEST_DELAY;
    this.#reading = { ...READING, ...(isLimited && { maxTimeMS }) };
    this.#onPrimary = { ...this.#reading, readConcern: { level: 'local' }, readPreference: 'primary' };
    this.#writeConcern = { w: 'majority', ...(isLimited && { wtimeoutMS: maxTimeMS }) };
    this.#writing = { ...this.#reading, writeConcern: this.#writeConcern };
    // On a client with a single connection, a stream would block all operations.
    if (!hasOneConnection(collection))
      this.releaseFeed = { retryAfter: RETRY, open: (listener) => this.#watch(listener) };
  }

  retries(error: unknown): boolean {
    return COLLISIONS.has(codeOf(error));
  }

  permanent(error: unknown): LockError | undefined {
    const code = codeOf(error);
    if (DENIED.has(code)) return storeDenied(this.title, error);
    const reason = messageOf(error);
    if (!NOT_UNDERSTOOD.has(code) && !(code === BAD_VALUE && /unsupported|not support/i.test(reason))) {
      return undefined;
    }
    return new LockError(
      'ERR_MONGODB_UNSUPPORTED',
      `the server does not support update pipelines with $$NOW, which leases need (MongoDB 4.4 and later have them): ${reason}`,
      { cause: error },
    );
  }

  async acquire(
    { names, owner, length, info = '' }: Wanted,
    { known }: Attempt,
    operation: Operation,
  ): Promise<Granted | Refused> {
    const _id = names[0]!;
    const pipeline = acquiring(owner, length, info, known[0]!);
    const document = await this.#acquire(_id, pipeline, FIELDS, operation);
    const found = foundIn(document, _id)!;
    if (found.owner !== owner)
      return { place: 0, wakeIn: found.remaining, isRegistered: operation.isSubscribed };
    const giveBack = (): void => {
      const exactly = heldBy(_id, owner, found.token);
      this.#collection.updateOne(exactly, TAKING_UNUSED, this.#writing).catch(ignore);
    };
    const { abandoned } = document as { readonly abandoned?: unknown };
    return { tokens: [found.token], abandoned: [abandoned === true], giveBack };
  }

  async acquireShared(
    { name: _id, reader, length }: WantedShared,
    { known }: Attempt,
    operation: Operation,
  ): Promise<GrantedShared | Refused> {
    const pipeline = acquiringShared(reader, length, known[0]!);
    const document = await this.#acquire(_id, pipeline, GROUP_FIELDS, operation);
    const found = foundIn(document, _id)!;
    const { owner, token, remaining } = found;
    const group = groupIn(found);
    if (group?.readers.includes(reader) === true) return { token, group: owner, abandoned: group.abandoned };
    const { now } = document as { readonly now?: unknown };
    const isFree = owner === NO_OWNER;
    const until = isFree ? putOffUntilIn(found.info) : group?.putOffUntil;
    const putOffFor = until === undefined || !(now instanceof Date) ? remaining : until - now.getTime();
    const wakeIn = isFree ? Math.max(putOffFor, 0) : Math.min(remaining, putOffFor);
    return { place: 0, wakeIn, isRegistered: operation.isSubscribed };
  }

  releaseShared(name: string, reader: string, operation: Operation): Promise<Release> {
    return this.#free(heldByGroup(name, reader), leaving(reader), operation);
  }

  putOffReaders(name: string, milliseconds: number, operation: Operation): Promise<boolean> {
    return this.#update(heldByGroup(name), puttingOff(milliseconds), operation);
  }

  async renew(keys: readonly Renewing[], operation: Operation): Promise<boolean[]> {
    const { name, owner, length, info } = keys[0]!;
    return [await this.#update(heldBy(name, owner), renewing(length, info), operation)];
  }

  keep({ name, owner, length, token, keptOwner }: Keeping, operation: Operation): Promise<boolean> {
    return this.#update(heldByEither(name, [owner, keptOwner], token), keeping(length, keptOwner), operation);
  }

  /**
   * With a change stream, the server notifies all stores. The releasing store then does not wake one of its
   * own waiters directly, because that waiter would always be the first to retry.
   */
  async release(keys: readonly Releasing[], operation: Operation): Promise<Release[]> {
    const { name, owner, token } = keys[0]!;
    return [await this.#free(heldBy(name, owner, token), FREEING, operation)];
  }

  takeBack({ name, owner, token }: Releasing, wasUsed: boolean, operation: Operation): Promise<Release> {
    return this.#free(heldBy(name, owner, token), wasUsed ? TAKING_USED : TAKING_UNUSED, operation);
  }

  /**
   * Updates the document at the `_id`, or inserts it. Returns the document after the update, which shows which
   * owner holds the key. Because of `upsert`, the result is never null.
   */
  async #acquire(
    _id: string,
    pipeline: readonly object[],
    projection: object,
    operation: Operation,
  ): Promise<unknown> {
    await this.#ready(operation);
    return this.#collection.findOneAndUpdate({ _id }, pipeline, {
      ...this.#writing,
      includeResultMetadata: false,
      projection,
      returnDocument: 'after',
      upsert: true,
    });
  }

  async #free(filter: object, pipeline: readonly object[], operation: Operation): Promise<Release> {
    const freed = await this.#update(filter, pipeline, operation);
    if (!freed) return 'not held';
    return operation.isSubscribed ? 'freed' : 'unnotified';
  }

  async inspect(_id: string, operation: Operation): Promise<StoredLease | undefined> {
    await this.#ready(operation);
    const options = { ...this.#onPrimary, projection: FIELDS };
    const found = foundIn(await this.#collection.findOne({ _id }, options), _id);
    return found === undefined || found.owner === NO_OWNER || found.remaining <= 0 ? undefined : found;
  }

  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async (range, asked) => {
      return pageOf(await ask((operation) => this.#page(range, asked, operation)), asked);
    });
  }

  async #page(range: PageRange, most: number, operation: Operation): Promise<StoredKey[]> {
    if (typeof this.#collection.find !== 'function') throw cannotList('the collection has no function find');
    await this.#ready(operation);
    const documents = await this.#collection
      .find(heldIn(range), {
        ...this.#onPrimary,
        projection: { ...FIELDS, _id: 1 },
        sort: { _id: 1 },
        limit: most,
        batchSize: most,
      })
      .toArray();
    return documents.map((document) => {
      const { _id } = document as { _id: string };
      return { text: _id, ...foundIn(document, _id)! };
    });
  }

  async #update(filter: object, pipeline: readonly object[], operation: Operation): Promise<boolean> {
    await this.#ready(operation);
    const { matchedCount } = await this.#collection.updateOne(filter, pipeline, this.#writing);
    return matchedCount > 0;
  }

  /**
   * Runs before each operation, and prepares the collection once. Rejects with a LockError
   * (ERR_MONGODB_UNSUPPORTED) if the collection has a collation. If the driver fails during the preparation,
   * this rejects with the driver's error. In both cases, the next operation prepares the collection again.
   */
  async #ready(operation: Operation): Promise<void> {
    await this.#prepared.done(operation);
    if (operation.isLate) throw NOT_ASKED;
  }

  /**
   * Creates the collection and its TTL index if they do not exist. Without the index, the documents of unused
   * keys would stay forever.
   */
  async #prepare(): Promise<void> {
    const [fields, options] = TTL_INDEX;
    try {
      await this.#collection.createIndex(fields, { ...options, writeConcern: this.#writeConcern });
    } catch (error) {
      if (!NO_INDEX.has(codeOf(error))) throw error;
    }
    const locale = await this.#locale();
    if (locale === undefined || locale === 'simple') return;
    throw new LockError(
      'ERR_MONGODB_UNSUPPORTED',
      `the collection ${this.#collection.collectionName} has the collation ${locale}, by which different keys or owners ` +
        'may be equal: leases need a collection without one',
    );
  }

  async #locale(): Promise<string | undefined> {
    try {
      return (await this.#collection.options(READING)).collation?.locale;
    } catch (error) {
      // If the user may not read the collation, the store assumes that the collection has the default
      // collation.
      if (codeOf(error) === UNAUTHORIZED) return undefined;
      throw error;
    }
  }

  /** Opens a change stream. While the stream waits for changes, it occupies one connection of the client. */
  #watch({ released, subscribed, interrupted, lost }: ReleaseListener): () => unknown {
    const stream = this.#collection.watch(RELEASES, {
      ...READING,
      readConcern: { level: 'majority' },
      readPreference: 'primary',
    });
    let isSubscribed = false;
    // Each answer of the stream contains a resume token, even if nothing changed. So the first token shows
    // that the stream is open.
    stream.on('resumeTokenChanged', () => {
      if (!isSubscribed) subscribed();
      isSubscribed = true;
    });
    stream.on('change', (change) => {
      const { documentKey } = change as { documentKey?: { _id?: unknown } };
      if (typeof documentKey?._id === 'string') released(documentKey._id);
    });
    stream.on('error', lost);
    // The driver usually resumes an interrupted stream by itself. If the driver cannot do so, the stream
    // emits only these events.
    for (const event of ['end', 'close']) {
      stream.on(event, () => {
        isSubscribed = false;
        interrupted();
      });
    }
    const opened = new Promise<void>((resolve) => {
      for (const event of ['resumeTokenChanged', 'error', 'end', 'close']) stream.on(event, () => resolve());
    });
    return async () => {
      // If a stream is closed before its first answer, the driver does not close the stream's cursor on the
      // server. So this function first waits until the stream is open.
      await settledWithin(CLOSES_IN, opened);
      // Closing sends a request, and the server may be unreachable, so the wait is limited.
      await answerWithin(CLOSES_IN, () => stream.close()).catch(ignore);
    };
  }
}
