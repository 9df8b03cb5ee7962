import { inspect } from 'node:util';
import { checkBoolean, checkOptionsObject, checkTimeout, type Names } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import { queueMicrotask } from '../common/host.js';
import type { LockMode } from '../common/types.js';
import {
  checkInfo,
  checkKey,
  checkOwner,
  checkToken,
  checkTtl,
  keptOwner,
  type AbandonmentLeaseStore,
  type FencingToken,
  type GrantDetails,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../lease/contract/lease-store.js';
import {
  checkKeyList,
  type BatchingLeaseStore,
  type KeyRelease,
  type Renewal,
  type SeveralKeysLeaseStore,
} from '../lease/contract/several-keys.js';
import {
  checkReader,
  READERS,
  type LeaveDetails,
  type SharedGrant,
  type SharedLeaseStore,
} from '../lease/contract/shared.js';
import { checkDrift, withDrift, withoutDrift } from './drift.js';
import {
  listedLease,
  resolveList,
  type ListedLease,
  type ListingLeaseStore,
  type ListLeasesOptions,
} from '../lease/contract/listing.js';
import { decodeText, encodeText, rangesOf } from './exact-text.js';
import { HighestTokens } from './highest-tokens.js';
import { LateGrants } from './late-grants.js';
import type { ListingBackend } from './listing.js';
import { Operation, Requests, type Asked } from './requests.js';
import { Wakers, type ReleaseFeed } from './wakers.js';

/** The default time limit of an operation, in milliseconds. */
const DEFAULT_TIMEOUT = 1000;

/** Keys and their owner, already checked and encoded as the server stores them. */
export interface Owned {
  readonly names: readonly string[];
  readonly owner: string;
  /** For each key, the token of the required grant. If undefined, any grant of the owner matches. */
  readonly tokens?: readonly FencingToken[] | undefined;
}

/** Keys to acquire or renew. */
export interface Wanted extends Owned {
  /** The TTL that is sent to the server, in milliseconds. It includes the allowance for clock drift. */
  readonly length: number;
  /**
   * The `info` text. If undefined, an acquisition stores no text, and a renewal leaves the stored text
   * unchanged.
   */
  readonly info: string | undefined;
}

/** A key to renew. The keys of one request may have different owners, lengths and `info` texts. */
export interface Renewing {
  readonly name: string;
  readonly owner: string;
  /** The TTL that is sent to the server, in milliseconds. It includes the allowance for clock drift. */
  readonly length: number;
  /** The new `info` text. If undefined, the stored text stays unchanged. */
  readonly info: string | undefined;
}

/** A key to release. */
export interface Releasing {
  readonly name: string;
  readonly owner: string;
  /** The token of the grant to release. Undefined releases any grant of the owner. */
  readonly token: FencingToken | undefined;
  /**
   * Whether this store is in its turn and will probably request the key again at once. The server may then
   * reserve the key for this store instead of notifying a waiter.
   */
  readonly inTurn?: boolean;
}

/** A key to keep taken after the end of its grant. */
export interface Keeping extends Releasing {
  readonly token: FencingToken;
  /** The owner of the key after the end of the grant; see `keptOwner`. */
  readonly keptOwner: string;
  /** The time in milliseconds that is sent to the server. It includes the allowance for clock drift. */
  readonly length: number;
}

/** Context of an attempt to acquire keys. */
export interface Attempt {
  /**
   * For each key, the highest token that this store has received. The token of a new grant must be higher.
   */
  readonly known: readonly FencingToken[];
  /** Whether this store has a waiter for one of the keys, or had one recently. */
  readonly isAwaited: boolean;
}

/** The answer to a successful attempt. */
export interface Granted {
  /** One token for each key, in the order of the keys. */
  readonly tokens: readonly FencingToken[];
  /** See {@link GrantDetails}. Undefined if the server does not know whether a lease was released. */
  readonly abandoned?: readonly boolean[];
  /**
   * Takes back the unused grant of the key with the index `place`, but never a later grant of that key to the
   * same owner. Callers do not wait for the result, because the lease expires anyway. Must not throw or
   * reject, and must also work after `close`.
   */
  giveBack(place: number): void;
}

/** The answer if another owner holds one of the keys. */
export interface Refused {
  /** The index of the key that another owner holds. */
  readonly place: number;
  /** Milliseconds after which a retry may succeed, if known. */
  readonly wakeIn?: number;
  /**
   * True if the server has registered this store as waiting for the key, or if the server cannot register
   * stores. In both cases, an immediate retry would change nothing. Default false.
   */
  readonly isRegistered?: boolean;
}

/** A key to acquire in shared mode. */
export interface WantedShared {
  readonly name: string;
  readonly reader: string;
  /** As in {@link Wanted}. */
  readonly length: number;
}

/** The answer to a successful attempt in shared mode. */
export interface GrantedShared {
  readonly token: FencingToken;
  /** The owner under which the server keeps the key. It contains only characters that need no encoding. */
  readonly group: string;
  /** As in {@link Granted}, for the one key. */
  readonly abandoned?: boolean;
}

/**
 * The result of a release. `not held`: the owner did not hold the key. `freed`: the key is free, and waiters
 * are notified. `unnotified`: the key is free, but no waiter was notified. `reserved`: the key is free, but
 * for a short time only this store can acquire it, and the waiters of other stores are not notified. `left`: a
 * reader has left its group, and other readers still hold the key.
 */
export type Release = 'not held' | 'freed' | 'unnotified' | 'reserved' | 'left';

/** A stored lease, encoded as the server stores it. */
export interface StoredLease {
  readonly owner: string;
  readonly token: FencingToken;
  /** Milliseconds until the lease expires, by the server's clock. */
  readonly remaining: number;
  /** Empty for a lease without info. */
  readonly info: string;
}

/**
 * The part of a store that is specific to a kind of server. {@link ServerStore} is the part that is the same
 * for all servers. An acquisition of several keys is atomic: it gets all of the keys or none. A renewal or
 * release of several keys is atomic only for each single key. Backends set no timeouts; instead,
 * `operation.isLate` becomes true after the time limit. A backend may throw the client's errors unchanged.
 */
export interface Backend extends Asked {
  /** The name under which the server stores the key. */
  nameOf(key: string): string;
  /** The source of notifications about releases. Undefined if the server does not report releases. */
  readonly releaseFeed?: ReleaseFeed | undefined;
  /**
   * Adds a listener for releases of a key. Only a backend that wakes waiters itself has this method. The
   * returned function removes the listener.
   */
  listen?(name: string, listener: () => void): () => void;
  acquire(wanted: Wanted, attempt: Attempt, operation: Operation): Promise<Granted | Refused>;
  /**
   * Extends leases, and never shortens a lease. Returns for each key whether the owner holds the key. If a
   * request for several keys cannot determine the result for a key, that result is undefined, and the store
   * sends a separate request for the key.
   */
  renew(keys: readonly Renewing[], operation: Operation): Promise<readonly (boolean | undefined)[]>;
  /**
   * Sets the owner and the remaining time of the grant with the given token. The new time may be shorter than the
   * old one. Resolves to false if the owner does not hold this grant. If the grant has the new owner already,
   * changes nothing and resolves to true.
   */
  keep(key: Keeping, operation: Operation): Promise<boolean>;
  /** Releases keys. A result of undefined has the same meaning as in {@link renew}. */
  release(keys: readonly Releasing[], operation: Operation): Promise<readonly (Release | undefined)[]>;
  /** See {@link AbandonmentLeaseStore}. Omitted if the server does not know whether a lease was released. */
  takeBack?(key: Releasing, wasUsed: boolean, operation: Operation): Promise<Release>;
  /** Reads the lease of a key. Undefined if the key is free. */
  inspect(name: string, operation: Operation): Promise<StoredLease | undefined>;
  /** Whether one atomic step can change all of these keys. Default: always true. */
  inOneStep?(names: readonly string[]): boolean;
  /** Whether an acquisition that times out counts as refused instead of failed. */
  readonly lateIsRefused?: boolean;
  /** Closes all resources that the backend has opened. */
  close?(): unknown;
}

/** The checked options that every store over a server accepts. */
export interface ServerTerms {
  /** The time limit of an operation, in milliseconds. */
  readonly timeout: number;
  readonly drift: number;
}

/**
 * Checks the options that every store accepts. `names` lists all allowed options. Omit `names` if the object
 * may have other properties.
 */
export function checkTerms(
  options: { timeout?: number | undefined; drift?: number | undefined },
  names?: Names<Record<string, unknown>>,
): ServerTerms {
  if ((options as unknown) === undefined) throw invalidArgType('options', 'an object', options);
  checkOptionsObject(options, names);
  const { timeout, drift } = options;
  return {
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    drift: checkDrift(drift),
  };
}

/** A lease store over a server, with operations on single keys. */
export class ServerStore<B extends Backend = Backend>
  implements InfoLeaseStore, AbandonmentLeaseStore, WakingLeaseStore, ReopenableLeaseStore
{
  protected readonly backend: B;
  readonly #source: LeaseStoreSource | undefined;
  readonly #drift: number;
  readonly #requests: Requests;
  protected readonly wakers: Wakers;
  /**
   * The highest token received so far for each name. The store remembers these tokens, because the server may
   * lose its data.
   */
  protected readonly highest = new HighestTokens();
  readonly #late = new LateGrants();
  #closing: Promise<void> | undefined;

  constructor(backend: B, { timeout, drift }: ServerTerms, source: LeaseStoreSource | undefined) {
    this.backend = backend;
    this.#source = source && concealed(source);
    this.#drift = drift;
    this.#requests = new Requests(backend, timeout);
    this.wakers = new Wakers(backend.releaseFeed);
  }

  /** The options may contain a password, so they are hidden when the store is printed. */
  get source(): LeaseStoreSource | undefined {
    return this.#source;
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
    details?: GrantDetails,
  ): Promise<FencingToken | undefined> {
    const answer = await this.acquire(this.wanted([checkKey(key)], owner, ttl, info), details);
    return typeof answer === 'number' ? undefined : answer[0];
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const [renewed] = await this.extend([{ key, owner, ttl, info }]);
    return renewed!;
  }

  async release(key: string, owner: string, token?: FencingToken): Promise<boolean> {
    const [freed] = await this.free([{ key, owner, token }]);
    return freed!;
  }

  async takeBack(key: string, owner: string, token: FencingToken, wasUsed: boolean): Promise<boolean> {
    checkBoolean(wasUsed, 'wasUsed');
    const { backend } = this;
    const keys = [releasing(backend, key, owner, checkToken(token))];
    const [freed] = await this.#end(keys, async (stored, operation) => {
      if (backend.takeBack === undefined) return backend.release(stored, operation);
      return [await backend.takeBack(stored[0]!, wasUsed, operation)];
    });
    return freed!;
  }

  async keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean> {
    const { name, owner: stored } = releasing(this.backend, key, owner, checkToken(token));
    const keeping = {
      name,
      owner: stored,
      keptOwner: encodeText(keptOwner(owner)),
      token: this.highest.storedFor(name, token),
      length: this.lengthOf(ttl),
    };
    const kept = await this.ask((operation) => this.backend.keep(keeping, operation));
    this.highest.ended(name, stored, token);
    return kept;
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const name = this.backend.nameOf(checkKey(key));
    const kept = await this.ask((operation) => this.backend.inspect(name, operation));
    return kept && this.decoded(kept);
  }

  onRelease(key: string, listener: () => void): () => void {
    const name = this.backend.nameOf(checkKey(key));
    return this.backend.listen?.(name, listener) ?? this.wakers.listen(name, listener);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  /** Sends one request, within the time limit. */
  protected ask<T>(request: (operation: Operation) => Promise<T>): Promise<T> {
    const operation = this.#begin();
    return this.#requests.run(operation, () => request(operation));
  }

  protected decoded({ owner, token, remaining, info }: StoredLease): InfoLeaseState {
    return {
      owner: decodeText(owner),
      token,
      remaining: withoutDrift(remaining, this.#drift),
      // A group keeps its readers in the place of the text.
      ...(info === '' || owner.startsWith(READERS) ? {} : { info: decodeText(info) }),
    };
  }

  /** Returns the tokens, or the index of a key that another owner holds. */
  protected async acquire(
    wanted: Wanted,
    details: GrantDetails | undefined,
  ): Promise<readonly FencingToken[] | number> {
    const { names, owner } = wanted;
    const answer = await this.attempt<Granted>(
      'exclusive',
      wanted,
      (attempt, operation) => this.backend.acquire(wanted, attempt, operation),
      ({ tokens }) => names.forEach((name, i) => this.highest.add(name, owner, tokens[i]!)),
      (late) => this.#giveBack(wanted, late),
    );
    if (typeof answer === 'number') return answer;
    if (details !== undefined) details.abandoned = answer.abandoned;
    return answer.tokens;
  }

  /**
   * Sends an attempt to acquire keys. Resolves to the grant, or to the index of the refused key. `onGrant`:
   * called with a grant before a late grant can be given back. `late`: called with a grant that arrives after
   * the time limit.
   */
  protected async attempt<T extends object>(
    mode: LockMode,
    wanted: Owned,
    send: (attempt: Attempt, operation: Operation) => Promise<T | Refused>,
    onGrant: (answer: T) => void,
    late: (answer: T) => void,
  ): Promise<T | number> {
    const { names } = wanted;
    const ended = this.wakers.attempt(names);
    const attempt = {
      known: names.map((name) => this.highest.of(name)),
      isAwaited: ended !== undefined,
    };
    const operation = this.#begin();
    let granted: LockMode | undefined;
    this.#late.begin(wanted);
    try {
      const answer = await this.#requests.run(
        operation,
        () => send(attempt, operation),
        (answered) => {
          if (!('place' in answered)) late(answered);
        },
      );
      if (!('place' in answer)) {
        granted = mode;
        onGrant(answer);
        return answer;
      }
      this.wakers.refused(names[answer.place]!, answer.wakeIn, answer.isRegistered === true);
      return answer.place;
    } catch (error) {
      if (operation.isLate && this.backend.lateIsRefused === true) return 0;
      throw error;
    } finally {
      this.#late.end(wanted);
      ended?.(granted);
    }
  }

  /**
   * Renews leases. Returns for each key whether its owner held the key, or undefined if the key needs a
   * separate request.
   */
  protected async extend(renewals: readonly Renewal[]): Promise<readonly (boolean | undefined)[]> {
    const keys = renewals.map(({ key, owner, ttl, info }): Renewing => {
      const { names, ...rest } = this.wanted([checkKey(key)], owner, ttl, info);
      // A group keeps its readers in the place of the text.
      return { name: names[0]!, ...rest, ...(owner.startsWith(READERS) && { info: undefined }) };
    });
    const operation = this.#begin();
    const renewed = await this.#requests.run(operation, () => this.backend.renew(keys, operation));
    keys.forEach(({ name, owner }, i) => {
      if (renewed[i] === false) this.highest.ended(name, owner, undefined);
    });
    return renewed;
  }

  /**
   * Releases leases. Returns for each key whether its owner held the key, or undefined if the key needs a
   * separate request.
   */
  protected async free(releases: readonly KeyRelease[]): Promise<readonly (boolean | undefined)[]> {
    const { backend } = this;
    const keys = releases.map(({ key, owner, token }): Releasing => releasing(backend, key, owner, token));
    return this.#end(keys, (stored, operation) => backend.release(stored, operation));
  }

  /** Ends the grants of these keys. `send` sends the request, which is a release or a {@link takeBack}. */
  async #end(
    keys: readonly Releasing[],
    send: Backend['release'],
  ): Promise<readonly (boolean | undefined)[]> {
    const stored = keys.map((key) => this.#stored(key));
    const inTurn = keys.length === 1 && this.wakers.isInTurn(keys[0]!.name);
    if (inTurn) stored[0] = { ...stored[0]!, inTurn };
    const operation = this.#begin();
    let releases: Awaited<ReturnType<Backend['release']>>;
    try {
      releases = await this.#requests.run(operation, () => send(stored, operation));
    } catch (error) {
      if (inTurn) this.wakers.answered(keys[0]!.name, 'reserved');
      throw error;
    }
    const freed: (boolean | undefined)[] = [];
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!;
      const { name, owner, token } = key;
      const release = releases[i];
      this.wakers.answered(name, release);
      // During the request, a late grant may have replaced this grant on the server. The key then has a new
      // token on the server, so the release is sent again with the new token.
      if (release === 'not held' && this.#stored(key).token !== stored[i]!.token) {
        freed.push(...(await this.#end([key], send)));
        continue;
      }
      if (release !== undefined) this.highest.ended(name, owner, token);
      freed.push(release && release !== 'not held');
    }
    return freed;
  }

  /** Returns the same release with the token that the server now has for the grant. */
  #stored({ name, owner, token }: Releasing): Releasing {
    return { name, owner, token: token === undefined ? undefined : this.highest.storedFor(name, token) };
  }

  /**
   * Gives back a grant that arrived after its attempt timed out. A late grant is not given back if it
   * replaced an earlier grant that the owner relies on. The owner's release then frees the key.
   */
  #giveBack(wanted: Wanted, answer: Granted): void {
    const { names, owner } = wanted;
    this.#late.decide(wanted, (i) => {
      if (!this.highest.addLate(names[i]!, owner, answer.tokens[i]!)) answer.giveBack(i);
    });
  }

  /** The caller must have checked `keys`. */
  protected wanted(keys: readonly string[], owner: string, ttl: number, info: string | undefined): Wanted {
    return {
      names: keys.map((key) => this.backend.nameOf(key)),
      owner: encodeText(checkOwner(owner)),
      length: this.lengthOf(ttl),
      info: info === undefined ? undefined : encodeText(checkInfo(info)),
    };
  }

  /** The TTL that is sent to the server, in milliseconds. It includes the allowance for clock drift. */
  protected lengthOf(ttl: number): number {
    return withDrift(checkTtl(ttl), this.#drift);
  }

  #begin(): Operation {
    return new Operation(this.wakers.isSubscribed);
  }

  async #close(): Promise<void> {
    this.#requests.close();
    const ended = this.wakers.close();
    await this.backend.close?.();
    await ended;
  }
}

/** Checks and encodes the arguments of a release. */
function releasing(backend: Backend, key: string, owner: string, token: FencingToken | undefined): Releasing {
  return {
    name: backend.nameOf(checkKey(key)),
    owner: encodeText(checkOwner(owner)),
    token: token === undefined ? undefined : checkToken(token),
  };
}

/** Hides the options from `console.log`. */
function concealed(source: LeaseStoreSource): LeaseStoreSource {
  Object.defineProperty(source.options, inspect.custom, { value: () => '[options of the store]' });
  return source;
}

/**
 * A lease store that can also list leases and grant keys in shared mode, for servers that can enumerate keys and
 * change a part of a lease.
 */
export class ListingServerStore
  extends ServerStore<ListingBackend>
  implements ListingLeaseStore, SharedLeaseStore
{
  async tryAcquireShared(
    key: string,
    reader: string,
    ttl: number,
    details?: GrantDetails,
  ): Promise<SharedGrant | undefined> {
    const { backend } = this;
    const name = backend.nameOf(checkKey(key));
    const wanted = { name, length: this.lengthOf(ttl), reader: checkReader(reader) };
    const answer = await this.attempt<GrantedShared>(
      'shared',
      { names: [name], owner: reader },
      (attempt, operation) => backend.acquireShared(wanted, attempt, operation),
      ({ token }) => this.highest.add(name, undefined, token),
      // Removes the reader, also after `close`. After its attempt timed out, the caller uses another id.
      () => void backend.releaseShared(name, reader, new Operation(false)).catch(() => undefined),
    ).finally(() => {
      // In a microtask, because a listener that throws must not hide a grant.
      queueMicrotask(() => this.wakers.askedShared(name));
    });
    if (typeof answer === 'number') return undefined;
    const { token, group, abandoned } = answer;
    if (details !== undefined) details.abandoned = [abandoned];
    return { token, group };
  }

  async releaseShared(key: string, reader: string, details?: LeaveDetails): Promise<boolean> {
    const name = this.backend.nameOf(checkKey(key));
    const id = checkReader(reader);
    const release = await this.ask((operation) => this.backend.releaseShared(name, id, operation));
    if (release === 'unnotified') this.wakers.released(name);
    if (release === 'left' && details !== undefined) details.freed = false;
    return release !== 'not held';
  }

  async putOffReaders(key: string, milliseconds: number): Promise<boolean> {
    const name = this.backend.nameOf(checkKey(key));
    const length = checkTtl(milliseconds, 'milliseconds');
    return this.ask((operation) => this.backend.putOffReaders(name, length, operation));
  }

  async list(options?: ListLeasesOptions): Promise<readonly ListedLease[]> {
    const { prefix, limit } = resolveList(options);
    const leases = await this.backend.list(rangesOf(prefix), limit, (request) => this.ask(request));
    return leases.map(({ text, ...lease }) => listedLease(decodeText(text), this.decoded(lease)));
  }
}

/** A lease store that also has operations on several keys, for servers that support such operations. */
export class SeveralServerStore
  extends ListingServerStore
  implements SeveralKeysLeaseStore, BatchingLeaseStore
{
  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
    details?: GrantDetails,
  ): Promise<readonly FencingToken[] | number> {
    return this.acquire(this.wanted(checkKeyList(keys), owner, ttl, info), details);
  }

  async renewAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly boolean[]> {
    const renewals = checkKeyList(keys).map((key) => ({ key, owner, ttl, info }));
    const renewed = await this.extend(renewals);
    return Promise.all(renewals.map(async ({ key }, i) => renewed[i] ?? this.renew(key, owner, ttl, info)));
  }

  async releaseAll(
    keys: readonly string[],
    owner: string,
    tokens?: readonly FencingToken[],
  ): Promise<readonly boolean[]> {
    const checked = checkKeyList(keys);
    const given: readonly FencingToken[] | undefined = tokens;
    if (tokens !== undefined && (!Array.isArray(tokens) || tokens.length !== checked.length)) {
      throw invalidArgType('tokens', 'a list of as many bigints as there are keys', tokens);
    }
    const releases = checked.map((key, i) => ({ key, owner, token: given?.[i] }));
    const freed = await this.free(releases);
    return Promise.all(
      releases.map(async ({ key, token }, i) => freed[i] ?? this.release(key, owner, token)),
    );
  }

  /** @internal */
  renewEach(renewals: readonly Renewal[]): Promise<readonly (boolean | undefined)[]> {
    return this.extend(renewals);
  }

  /** @internal */
  releaseEach(releases: readonly KeyRelease[]): Promise<readonly (boolean | undefined)[]> {
    return this.free(releases);
  }

  inOneStep(keys: readonly string[]): boolean {
    return this.backend.inOneStep?.(checkKeyList(keys).map((key) => this.backend.nameOf(key))) ?? true;
  }
}
