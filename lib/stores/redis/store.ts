import { checkOptionsObject, checkTimeout, type Names } from '../../common/checks.js';
import { performance } from '../../common/host.js';
import { invalidArgType } from '../../common/errors.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
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
import { checkInfo } from '../../lease/contract/info.js';
import { Replies } from '../../lease/contract/replies.js';
import { checkKeyList, type SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { checkDrift, withDrift, withoutDrift } from '../drift.js';
import { decodeText, encodeText } from '../exact-text.js';
import { Overdue, type OverdueAttempt } from '../overdue.js';
import { connectionOf, evaluate, type RedisConnection } from './client.js';
import { checkPrefix, KeyNaming, waitersOf, type KeyNames } from './key-names.js';
import { sourceFrom, type RedisLeaseStoreOptions, type RedisUrlOptions } from './options.js';
import { connectTo, type OwnClient } from './own-client.js';
import { Releases } from './releases.js';
import { ACQUIRE, BEFORE_INFO, INSPECT, PASS_ON, RELEASE, RENEW, type Script } from './scripts.js';
import { SeveralKeys, textOf, type Late, type Wanted } from './several-keys.js';

const NAMES: Names<RedisLeaseStoreOptions | RedisUrlOptions> & { readonly clientModule: true } = {
  client: true,
  clientModule: true,
  url: true,
  prefix: true,
  timeout: true,
  drift: true,
};
/** Milliseconds. */
const DEFAULT_TIMEOUT = 1000;
const MICROSECOND = 1000n;

/**
 * Leases in Redis or Valkey, for the processes of many machines. Each operation is one script, one round trip; the server
 * judges expiry. An operation rejects with LeaseStoreError if the server fails, or does not answer within `timeout`. A
 * grant that is answered later is given back.
 *
 * A release wakes acquisitions that wait in managers, through a second connection that the store makes from the client
 * while anybody waits. `close` ends that connection, and the client if the store has made it from a URL.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options, a LockError
 * (ERR_NO_REDIS_CLIENT) for a URL if no client library is installed.
 */
export function redisLeaseStore(
  options: RedisLeaseStoreOptions | RedisUrlOptions,
): WakingLeaseStore & SeveralKeysLeaseStore & InfoLeaseStore & ReopenableLeaseStore {
  return new RedisLeaseStore(options);
}

const ignore = (): void => undefined;

/** What a server answers without a password, with a wrong one, and where an ACL forbids the script or a command in it. */
const DENIED = /^(?:NOPERM|NOAUTH|WRONGPASS)\b|ACL failure in script|user executing the script can't/;

class RedisLeaseStore
  implements WakingLeaseStore, SeveralKeysLeaseStore, InfoLeaseStore, ReopenableLeaseStore
{
  readonly source: LeaseStoreSource | undefined;
  readonly #connection: RedisConnection;
  /** The client, if the store has made it. */
  readonly #own: OwnClient | undefined;
  readonly #releases: Releases;
  readonly #names: KeyNaming;
  readonly #replies: Replies;
  readonly #drift: number;
  /** By bucket, the highest token that this client has received. A server that has lost its own may have another clock. */
  readonly #highest = new Map<string, FencingToken>();
  readonly #overdue = new Overdue();
  readonly #several: SeveralKeys;
  #closed = false;

  constructor(options: RedisLeaseStoreOptions | RedisUrlOptions) {
    if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
    checkOptionsObject(options, NAMES);
    const { prefix, timeout, drift } = options;
    const checkedPrefix = checkPrefix(prefix);
    this.#names = new KeyNaming(checkedPrefix);
    this.#replies = new Replies(
      timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
      'Redis',
    );
    this.#drift = checkDrift(drift);
    this.source = sourceFrom(options);
    this.#own = options.url === undefined ? undefined : connectTo(options.url);
    this.#connection = connectionOf(this.#own?.client ?? options.client);
    this.#releases = new Releases(this.#connection, checkedPrefix, (lease, channel) => {
      evaluate(this.#connection, PASS_ON, [lease, waitersOf(lease)], [channel], ignore, ignore);
    });
    this.#several = new SeveralKeys({
      isCluster: this.#connection.isCluster,
      overdue: this.#overdue,
      releases: this.#releases,
      highest: this.#highest,
      run: (...of) => this.#run(...of),
      release: (...of) => this.#release(...of),
      giveBack: (...of) => this.#giveBack(...of),
    });
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const names = this.#names.of(checkKey(key));
    const wanted = this.#wanted(owner, ttl, info);
    const notGranted = this.#overdue.overtake(names.lease, wanted.owner);
    let token: FencingToken | undefined;
    try {
      token = await this.#tryAcquire(names, wanted);
      return token;
    } finally {
      if (token === undefined) notGranted?.();
    }
  }

  async #tryAcquire(names: KeyNames, wanted: Wanted): Promise<FencingToken | undefined> {
    const at = performance.now();
    let reply = await this.#acquire(names, wanted, undefined);
    const known = this.#highest.get(names.highest);
    if (known !== undefined && !Array.isArray(reply) && BigInt(String(reply)) <= known) {
      // The server has lost a token that this client remembers.
      const floor = String(known / MICROSECOND);
      reply = await this.#acquire(names, wanted, floor);
    }
    if (Array.isArray(reply)) {
      this.#releases.endsIn(names.lease, Number(reply[0]));
      return undefined;
    }
    const token = BigInt(String(reply));
    this.#highest.set(names.highest, token);
    const giveBack = (): void => this.#giveBack(names, wanted.owner, reply);
    return grantInTime(token, { store: 'Redis', at, ttl: wanted.ttl }, performance.now(), giveBack);
  }

  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number> {
    return this.#several.tryAcquire(this.#namesOf(keys), this.#wanted(owner, ttl, info));
  }

  async renewAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly boolean[]> {
    return this.#several.renew(this.#namesOf(keys), this.#wanted(owner, ttl, info));
  }

  async releaseAll(keys: readonly string[], owner: string): Promise<readonly boolean[]> {
    return this.#several.release(this.#namesOf(keys), encodeText(checkOwner(owner)));
  }

  inOneStep(keys: readonly string[]): boolean {
    return this.#several.inOneStep(this.#namesOf(keys));
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const { lease } = this.#names.of(checkKey(key));
    const wanted = this.#wanted(owner, ttl, info);
    const args = [wanted.owner, wanted.milliseconds];
    if (wanted.info !== undefined) args.push(textOf(wanted.info));
    return Number(await this.#run(RENEW, [lease], args)) === 1;
  }

  async release(key: string, owner: string): Promise<boolean> {
    const { lease, waiters } = this.#names.of(checkKey(key));
    const [reply] = await this.#release(RELEASE, [lease, waiters], encodeText(checkOwner(owner)));
    if (reply === 1) this.#releases.wake(lease);
    return reply! > 0;
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const { lease } = this.#names.of(checkKey(key));
    const reply = await this.#run(INSPECT, [lease], []);
    if (!Array.isArray(reply)) return undefined;
    const [text, token, remaining] = reply as unknown[];
    const [owner, info] = String(text).split(BEFORE_INFO);
    return {
      owner: decodeText(owner!),
      token: BigInt(String(token)),
      remaining: withoutDrift(Number(remaining), this.#drift),
      ...(info === undefined ? {} : { info: decodeText(info) }),
    };
  }

  onRelease(key: string, listener: () => void): () => void {
    return this.#releases.listen(this.#names.of(checkKey(key)).lease, listener);
  }

  close(): Promise<void> {
    if (!this.#closed) this.#own?.end();
    this.#closed = true;
    this.#releases.close();
    return Promise.resolve();
  }

  #namesOf(keys: readonly string[]): KeyNames[] {
    return checkKeyList(keys).map((key) => this.#names.of(key));
  }

  /** Checked, and as the server gets it. */
  #wanted(owner: string, ttl: number, info: string | undefined): Wanted {
    return {
      owner: encodeText(checkOwner(owner)),
      milliseconds: String(withDrift(checkTtl(ttl), this.#drift)),
      info: info === undefined ? undefined : encodeText(checkInfo(info)),
      ttl,
    };
  }

  /** `floor`: in microseconds, what the token must exceed. */
  #acquire(names: KeyNames, wanted: Wanted, floor: string | undefined): Promise<unknown> {
    const { lease, highest, waiters } = names;
    const { owner, milliseconds, info } = wanted;
    const late = this.#late(names, owner);
    const channel = this.#releases.channelFor(lease);
    const args = [owner, milliseconds];
    if (channel !== undefined || floor !== undefined || info) args.push(channel ?? '');
    if (floor !== undefined || info) args.push(floor ?? '0');
    if (info) args.push(textOf(info));
    if (channel === undefined) return this.#run(ACQUIRE, [lease, highest], args, late);
    const answered = this.#releases.attempt(lease);
    return this.#run(ACQUIRE, [lease, highest, waiters], args, late).finally(answered);
  }

  /** Gives back a grant that comes after its attempt has failed, unless its owner has the lease through a later attempt. */
  #late(names: KeyNames, owner: string): Late {
    let attempt: OverdueAttempt | undefined;
    return {
      timedOut: () => {
        attempt = this.#overdue.add(names.lease, owner);
      },
      settled: (reply) => {
        this.#overdue.remove(names.lease, owner, attempt!);
        if (reply !== undefined && attempt!.overtaken === 0) this.#giveBack(names, owner, reply);
      },
    };
  }

  /**
   * The replies for each lease. A client that sends again what it had sent when its connection was cut is told that nothing
   * is held if the first send has freed it. Nobody can distinguish that from a lease that has expired.
   */
  async #release(script: Script, keys: readonly string[], owner: string): Promise<number[]> {
    const cuts = this.#connection.cuts?.count;
    const replies = [await this.#run(script, keys, [owner])].flat().map(Number);
    if (this.#connection.cuts?.count === cuts || !replies.includes(0)) return replies;
    throw new LeaseStoreError(
      'Redis failed: the connection was cut before the reply, and the lease may have been released before',
    );
  }

  #run(script: Script, keys: readonly string[], args: readonly string[], late?: Late): Promise<unknown> {
    if (this.#closed) return Promise.reject(new LeaseStoreError('the Redis lease store was closed'));
    return new Promise((resolve, reject) => {
      const awaited = this.#replies.expect((error) => {
        late?.timedOut();
        const unreachable = this.#own?.failure();
        reject(unreachable === undefined ? error : failureOf(error.message, unreachable));
      });
      const answered = (reply: unknown): void => {
        if (this.#replies.arrived(awaited)) resolve(reply);
        else late?.settled(reply);
      };
      const failed = (error: unknown): void => {
        if (!this.#replies.arrived(awaited)) late?.settled();
        const text = messageOf(error);
        const unreachable = this.#own?.failure();
        if (DENIED.test(text)) reject(storeDenied('Redis', error));
        else if (unreachable === undefined) reject(new LeaseStoreError(`Redis failed: ${text}`, error));
        else reject(failureOf(`Redis failed: ${text}`, unreachable));
      };
      evaluate(this.#connection, script, keys, args, answered, failed);
    });
  }

  /**
   * Frees exactly this grant, and no later one of the same owner. Nobody waits for that, since the lease ends by itself
   * anyway.
   */
  #giveBack({ lease, waiters }: KeyNames, owner: string, reply: unknown): void {
    if (Array.isArray(reply)) return;
    evaluate(this.#connection, RELEASE, [lease, waiters], [owner, String(reply)], ignore, ignore);
  }
}

/** `cause`: why the server cannot be reached. */
function failureOf(message: string, cause: unknown): LeaseStoreError {
  return new LeaseStoreError(`${message}: ${messageOf(cause)}`, cause);
}
