import { checkOptionsObject, checkTimeout, type Names } from '../../common/checks.js';
import { performance } from '../../common/host.js';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { invalidArgType } from '../../common/errors.js';
import { checkInfo } from '../../lease/contract/info.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import {
  checkKey,
  checkOwner,
  checkTtl,
  type FencingToken,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import { checkDrift, withDrift, withoutDrift } from '../drift.js';
import { decodeText, encodeText } from '../exact-text.js';
import { HighestTokens } from '../highest-tokens.js';
import { Overdue, type OverdueAttempt } from '../overdue.js';
import { collectionOf, READING, type Collection } from './client.js';
import { sourceFrom, type MongodbLeaseStoreOptions } from './options.js';
import { Preparation } from './preparation.js';
import { Releases } from './releases.js';
import { Requests, type Late } from './requests.js';
import {
  acquiring,
  FIELDS,
  foundIn,
  FREEING,
  heldBy,
  idOf,
  NOBODY,
  renewing,
  type Found,
} from './statements.js';

const NAMES: Names<MongodbLeaseStoreOptions> = {
  collection: true,
  db: true,
  clientModule: true,
  timeout: true,
  drift: true,
};
/** Milliseconds. */
const DEFAULT_TIMEOUT = 1000;

/**
 * Leases in MongoDB, 4.4 or later, for the processes of many machines, over a collection or a database of the caller's, by
 * the driver `mongodb` 6 or 7. Each operation is one command to the primary, which judges expiry by its clock; writes count
 * when a majority of the replica set has them. An operation rejects with LeaseStoreError if the server fails, or does not
 * answer within `timeout`. A grant that is answered later is given back. It rejects with a LockError, code
 * ERR_MONGODB_UNSUPPORTED, if the server does not understand what the store asks, or the collection has a collation.
 *
 * The first operation makes the collection, and its TTL index, if they are missing. On a replica set a release wakes
 * acquisitions that wait in managers, through a change stream that is open while anybody waits. `close` ends that.
 *
 * No operation takes part in a transaction of the caller's: the store passes no session.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function mongodbLeaseStore(
  options: MongodbLeaseStoreOptions,
): InfoLeaseStore & WakingLeaseStore & ReopenableLeaseStore {
  return new MongodbLeaseStore(options);
}

class MongodbLeaseStore implements WakingLeaseStore, InfoLeaseStore, ReopenableLeaseStore {
  readonly source: LeaseStoreSource | undefined;
  readonly #collection: Collection;
  readonly #requests: Requests;
  readonly #releases: Releases;
  readonly #drift: number;
  readonly #limit: object;
  readonly #writing: object;
  /** By id, of what this client was given: the server may have lost it. */
  readonly #highest = new HighestTokens();
  readonly #overdue = new Overdue();

  constructor(options: MongodbLeaseStoreOptions) {
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options, NAMES);
    const { timeout: given, drift } = options;
    const timeout = given === undefined ? DEFAULT_TIMEOUT : checkTimeout(given, 'options.timeout');
    this.#drift = checkDrift(drift);
    this.source = sourceFrom(options);
    this.#collection = collectionOf(options);
    this.#releases = new Releases(this.#collection);
    // For the server 0 is no limit, and it takes none that is longer than a timer can be.
    const maxTimeMS = Math.max(1, Math.ceil(timeout));
    const isLimited = maxTimeMS <= LONGEST_DELAY;
    this.#limit = isLimited ? { maxTimeMS } : {};
    const writeConcern = { w: 'majority', ...(isLimited && { wtimeoutMS: maxTimeMS }) };
    this.#writing = { ...READING, ...this.#limit, writeConcern };
    const preparation = new Preparation(this.#collection, writeConcern);
    this.#requests = new Requests(timeout, () => preparation.ready());
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const _id = idOf(checkKey(key));
    const stored = encodeText(checkOwner(owner));
    const length = withDrift(checkTtl(ttl), this.#drift);
    const text = info === undefined ? '' : encodeText(checkInfo(info));
    const notGranted = this.#overdue.overtake(_id, stored);
    let token: FencingToken | undefined;
    try {
      const at = performance.now();
      const found = await this.#acquire(_id, stored, length, text);
      if (found.owner !== stored) {
        this.#releases.endsIn(_id, found.left);
        return undefined;
      }
      this.#highest.add(_id, found.token);
      const giveBack = (): void => this.#giveBack(_id, found);
      token = await grantInTime(found.token, { store: 'MongoDB', at, ttl }, performance.now(), giveBack);
      return token;
    } finally {
      if (token === undefined) notGranted?.();
    }
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const filter = heldBy(idOf(checkKey(key)), encodeText(checkOwner(owner)));
    const length = withDrift(checkTtl(ttl), this.#drift);
    const text = info === undefined ? undefined : encodeText(checkInfo(info));
    return this.#update(filter, renewing(length, text));
  }

  async release(key: string, owner: string): Promise<boolean> {
    const _id = idOf(checkKey(key));
    const freed = await this.#update(heldBy(_id, encodeText(checkOwner(owner))), FREEING);
    if (freed) this.#releases.released(_id);
    return freed;
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const _id = idOf(checkKey(key));
    const options = {
      ...READING,
      ...this.#limit,
      projection: FIELDS,
      readConcern: { level: 'local' },
      readPreference: 'primary',
    };
    const found = await this.#requests.run(async () =>
      foundIn(await this.#collection.findOne({ _id }, options), _id),
    );
    if (found === undefined || found.owner === NOBODY || found.left <= 0) return undefined;
    return {
      owner: decodeText(found.owner),
      token: found.token,
      remaining: withoutDrift(found.left, this.#drift),
      ...(found.info === '' ? {} : { info: decodeText(found.info) }),
    };
  }

  onRelease(key: string, listener: () => void): () => void {
    return this.#releases.listen(idOf(checkKey(key)), listener);
  }

  close(): Promise<void> {
    this.#requests.close();
    return this.#releases.close();
  }

  /** The document as it is afterwards: of this owner, or of another. */
  async #acquire(_id: string, owner: string, length: number, info: string): Promise<Found> {
    const pipeline = acquiring(owner, length, info, this.#highest.of(_id));
    const options = {
      ...this.#writing,
      includeResultMetadata: false,
      projection: FIELDS,
      returnDocument: 'after',
      upsert: true,
    };
    return this.#requests.run(
      // Never null with `upsert`.
      async () => foundIn(await this.#collection.findOneAndUpdate({ _id }, pipeline, options), _id)!,
      this.#late(_id, owner),
    );
  }

  async #update(filter: object, pipeline: readonly object[]): Promise<boolean> {
    const { matchedCount } = await this.#requests.run(() => {
      return this.#collection.updateOne(filter, pipeline, this.#writing);
    });
    return matchedCount > 0;
  }

  /** Gives back a grant that comes after its attempt has failed, unless its owner has the lease through a later attempt. */
  #late(_id: string, owner: string): Late<Found> {
    let attempt: OverdueAttempt | undefined;
    return {
      timedOut: () => {
        attempt = this.#overdue.add(_id, owner);
      },
      settled: (found) => {
        this.#overdue.remove(_id, owner, attempt!);
        if (found?.owner === owner && attempt!.overtaken === 0) this.#giveBack(_id, found);
      },
    };
  }

  /**
   * Frees exactly this grant, and no later one of the same owner. Nobody waits for that, since the lease ends by itself
   * anyway.
   */
  #giveBack(_id: string, { owner, token }: Found): void {
    this.#collection.updateOne(heldBy(_id, owner, token), FREEING, this.#writing).catch(() => undefined);
  }
}
