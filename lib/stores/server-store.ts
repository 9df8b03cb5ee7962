import { inspect } from 'node:util';
import { checkOptionsObject, checkTimeout, type Names } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import {
  checkInfo,
  checkKey,
  checkOwner,
  checkToken,
  checkTtl,
  type ExactLeaseStore,
  type FencingToken,
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
import { checkDrift, withDrift, withoutDrift } from './drift.js';
import { decodeText, encodeText } from './exact-text.js';
import { HighestTokens } from './highest-tokens.js';
import { LateGrants } from './late-grants.js';
import { Operation, Requests, type Asked } from './requests.js';
import { Wakers, type ReleaseFeed } from './wakers.js';

/** Milliseconds. */
const DEFAULT_TIMEOUT = 1000;

/** The keys of one owner, checked, in the form in which the server stores them. */
export interface Owned {
  readonly names: readonly string[];
  readonly owner: string;
  /** For each key, the token of the grant to act on; undefined for any grant. */
  readonly tokens?: readonly FencingToken[] | undefined;
}

/** Keys to acquire or renew. */
export interface Wanted extends Owned {
  /** Milliseconds, drift included. */
  readonly length: number;
  /** Undefined for no info when acquiring, and to leave the info unchanged when renewing. */
  readonly info: string | undefined;
}

/** A key to renew. Keys of one request may differ in owner, length and info. */
export interface Renewing {
  readonly name: string;
  readonly owner: string;
  /** Milliseconds, drift included. */
  readonly length: number;
  /** Undefined to leave the info unchanged. */
  readonly info: string | undefined;
}

/** A key to release. */
export interface Releasing {
  readonly name: string;
  readonly owner: string;
  /** The token of the grant to release; undefined for any grant. */
  readonly token: FencingToken | undefined;
}

/** Context of an attempt to acquire keys. */
export interface Attempt {
  /** For each key, the highest token that this store has received. The new token must be higher. */
  readonly known: readonly FencingToken[];
  /** Whether this store has, or recently had, a waiter for one of the keys. */
  readonly isAwaited: boolean;
}

/** The answer to a successful attempt. */
export interface Granted {
  /** In key order. */
  readonly tokens: readonly FencingToken[];
  /**
   * Releases exactly the grant at that index, never a later grant of the same owner. No caller waits for it, since the
   * lease expires anyway, so it must not throw or reject. It must also work after `close`.
   */
  giveBack(place: number): void;
}

/** The answer if another owner holds one of the keys. */
export interface Refused {
  readonly place: number;
  /** Milliseconds after which a retry makes sense, if known. */
  readonly wakeIn?: number;
  /**
   * Whether the server has registered this store as waiting, or cannot. An immediate retry would then change nothing.
   * Default false.
   */
  readonly isRegistered?: boolean;
}

/** The result of a release. `unnotified`: the key is free, but no waiter was notified. */
export type Release = 'not held' | 'freed' | 'unnotified';

/** A stored lease, encoded as the server stores it. */
export interface StoredLease {
  readonly owner: string;
  readonly token: FencingToken;
  /** Milliseconds by the server's clock. */
  readonly remaining: number;
  /** Empty for a lease without info. */
  readonly info: string;
}

/**
 * The server-specific half of a store. Each operation is one atomic step on one or several keys. Backends have no
 * timeouts: `operation.isLate` reports that the caller has given up. Any error of the client may be thrown as it is.
 * {@link ServerStore} holds the half that all servers share.
 */
export interface Backend extends Asked {
  /** The name under which the server stores the key. */
  nameOf(key: string): string;
  /** Undefined if the server does not report releases. */
  readonly releaseFeed?: ReleaseFeed | undefined;
  /** For a backend that wakes waiters itself. The returned function removes the listener. */
  listen?(name: string, listener: () => void): () => void;
  acquire(wanted: Wanted, attempt: Attempt, operation: Operation): Promise<Granted | Refused>;
  /**
   * Never shortens a lease. Returns for each key whether the owner holds it. Undefined means that this request could
   * not decide one of several keys; the store then sends a request for that key alone.
   */
  renew(keys: readonly Renewing[], operation: Operation): Promise<readonly (boolean | undefined)[]>;
  /**
   * Sets the remaining time of one grant, given by its token, even to a shorter one. False if the owner does not hold
   * that grant.
   */
  keep(wanted: Wanted, operation: Operation): Promise<boolean>;
  /** Undefined as in {@link renew}. */
  release(keys: readonly Releasing[], operation: Operation): Promise<readonly (Release | undefined)[]>;
  /** Undefined if the key is free. */
  inspect(name: string, operation: Operation): Promise<StoredLease | undefined>;
  /** Whether one step can reach all of these keys. Default: always. */
  inOneStep?(names: readonly string[]): boolean;
  /** Whether an acquisition that times out counts as refused instead of failed. */
  readonly lateIsRefused?: boolean;
  /** Closes whatever the store has opened. */
  close?(): unknown;
}

/** Options that every store over a server accepts. */
export interface ServerTerms {
  /** Milliseconds. */
  readonly timeout: number;
  readonly drift: number;
}

/** `names` lists all allowed options. Leave it out if the object may have others. */
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

/** A store over a server, with single-key operations. */
export class ServerStore implements InfoLeaseStore, ExactLeaseStore, WakingLeaseStore, ReopenableLeaseStore {
  protected readonly backend: Backend;
  readonly #source: LeaseStoreSource | undefined;
  readonly #drift: number;
  readonly #requests: Requests;
  readonly #wakers: Wakers;
  /** The highest tokens received so far, by name. The server may have lost them. */
  readonly #highest = new HighestTokens();
  readonly #late = new LateGrants();
  #closing: Promise<void> | undefined;

  constructor(backend: Backend, { timeout, drift }: ServerTerms, source: LeaseStoreSource | undefined) {
    this.backend = backend;
    this.#source = source && concealed(source);
    this.#drift = drift;
    this.#requests = new Requests(backend, timeout);
    this.#wakers = new Wakers(backend.releaseFeed);
  }

  /** The options may contain a password, so printing the store does not show them. */
  get source(): LeaseStoreSource | undefined {
    return this.#source;
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const answer = await this.acquire(this.wanted([checkKey(key)], owner, ttl, info));
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

  async keep(key: string, owner: string, ttl: number, token: FencingToken): Promise<boolean> {
    const wanted = this.wanted([checkKey(key)], owner, ttl, undefined);
    const [name] = wanted.names;
    const exactly = { ...wanted, tokens: [this.#highest.storedFor(name!, checkToken(token))] };
    const operation = this.#begin();
    const kept = await this.#requests.run(operation, () => this.backend.keep(exactly, operation));
    this.#highest.ended(name!, wanted.owner, token);
    return kept;
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const name = this.backend.nameOf(checkKey(key));
    const operation = this.#begin();
    const kept = await this.#requests.run(operation, () => this.backend.inspect(name, operation));
    if (kept === undefined) return undefined;
    const { owner, token, remaining, info } = kept;
    return {
      owner: decodeText(owner),
      token,
      remaining: withoutDrift(remaining, this.#drift),
      ...(info === '' ? {} : { info: decodeText(info) }),
    };
  }

  onRelease(key: string, listener: () => void): () => void {
    const name = this.backend.nameOf(checkKey(key));
    return this.backend.listen?.(name, listener) ?? this.#wakers.listen(name, listener);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  /** Returns the tokens, or the index of a key that another owner holds. */
  protected async acquire(wanted: Wanted): Promise<readonly FencingToken[] | number> {
    const { names, owner } = wanted;
    const ended = this.#wakers.attempt(names);
    const attempt = {
      known: names.map((name) => this.#highest.of(name)),
      isAwaited: ended !== undefined,
    };
    const operation = this.#begin();
    const hasAnswer = this.#late.begin(wanted);
    const ask = (): Promise<Granted | Refused> => this.backend.acquire(wanted, attempt, operation);
    try {
      const answer = await this.#requests.run(operation, ask, (late) => this.#giveBack(wanted, late));
      if ('tokens' in answer) {
        names.forEach((name, i) => this.#highest.add(name, owner, answer.tokens[i]!));
        return answer.tokens;
      }
      this.#wakers.refused(names[answer.place]!, answer.wakeIn, answer.isRegistered === true);
      return answer.place;
    } catch (error) {
      if (operation.isLate && this.backend.lateIsRefused === true) return 0;
      throw error;
    } finally {
      hasAnswer();
      ended?.();
    }
  }

  /** Undefined for a key that needs a separate request. */
  protected async extend(renewals: readonly Renewal[]): Promise<readonly (boolean | undefined)[]> {
    const keys = renewals.map(({ key, owner, ttl, info }): Renewing => {
      const { names, ...rest } = this.wanted([checkKey(key)], owner, ttl, info);
      return { name: names[0]!, ...rest };
    });
    const operation = this.#begin();
    const renewed = await this.#requests.run(operation, () => this.backend.renew(keys, operation));
    keys.forEach(({ name, owner }, i) => {
      if (renewed[i] === false) this.#highest.ended(name, owner, undefined);
    });
    return renewed;
  }

  /** Undefined as in {@link extend}. */
  protected async free(releases: readonly KeyRelease[]): Promise<readonly (boolean | undefined)[]> {
    return this.#free(
      releases.map(({ key, owner, token }): Releasing => {
        return {
          name: this.backend.nameOf(checkKey(key)),
          owner: encodeText(checkOwner(owner)),
          token: token === undefined ? undefined : checkToken(token),
        };
      }),
    );
  }

  async #free(keys: readonly Releasing[]): Promise<readonly (boolean | undefined)[]> {
    const stored = keys.map(({ name, token }) => token && this.#highest.storedFor(name, token));
    const operation = this.#begin();
    const releases = await this.#requests.run(operation, () =>
      this.backend.release(
        keys.map((key, i) => ({ ...key, token: stored[i] })),
        operation,
      ),
    );
    const freed: (boolean | undefined)[] = [];
    for (const [i, key] of keys.entries()) {
      const { name, owner, token } = key;
      const release = releases[i];
      if (release === 'unnotified') this.#wakers.released(name);
      // During the request, a late grant may have replaced this one, which changes its token in the store.
      if (
        release === 'not held' &&
        token !== undefined &&
        this.#highest.storedFor(name, token) !== stored[i]
      ) {
        freed.push(...(await this.#free([key])));
        continue;
      }
      if (release !== undefined) this.#highest.ended(name, owner, token);
      freed.push(release && release !== 'not held');
    }
    return freed;
  }

  /**
   * Gives back a grant that arrived after its attempt timed out. It stays if it replaced an earlier grant that the
   * owner relies on; the owner's release then frees the key.
   */
  #giveBack(wanted: Wanted, answer: Granted | Refused): void {
    if (!('tokens' in answer)) return;
    const { names, owner } = wanted;
    this.#late.decide(wanted, (i) => {
      if (!this.#highest.addLate(names[i]!, owner, answer.tokens[i]!)) answer.giveBack(i);
    });
  }

  /** `keys` must be checked already. */
  protected wanted(keys: readonly string[], owner: string, ttl: number, info: string | undefined): Wanted {
    return {
      names: keys.map((key) => this.backend.nameOf(key)),
      owner: encodeText(checkOwner(owner)),
      length: withDrift(checkTtl(ttl), this.#drift),
      info: info === undefined ? undefined : encodeText(checkInfo(info)),
    };
  }

  #begin(): Operation {
    return new Operation(this.#wakers.isSubscribed);
  }

  async #close(): Promise<void> {
    this.#requests.close();
    const ended = this.#wakers.close();
    await this.backend.close?.();
    await ended;
  }
}

/** Hides the options from `console.log`. */
function concealed(source: LeaseStoreSource): LeaseStoreSource {
  Object.defineProperty(source.options, inspect.custom, { value: () => '[options of the store]' });
  return source;
}

/** A store over a server that also has multi-key operations. */
export class SeveralServerStore extends ServerStore implements SeveralKeysLeaseStore, BatchingLeaseStore {
  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number> {
    return this.acquire(this.wanted(checkKeyList(keys), owner, ttl, info));
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
