import { localNow } from '../../common/elapsed.js';
import { READERS } from '../../lease/contract/shared.js';
import type { Operation } from '../requests.js';
import type { TextRange } from '../exact-text.js';
import {
  inGroups,
  listByPages,
  type Ask,
  type ListingBackend,
  type Page,
  type StoredKey,
} from '../listing.js';
import type {
  Attempt,
  Granted,
  GrantedShared,
  Keeping,
  StoredLease,
  Owned,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
  WantedShared,
} from '../server-store.js';
import type { ReleaseFeed, ReleaseListener } from '../wakers.js';
import { Batches, MOST_KEYS } from './batches.js';
import { Cluster } from './cluster.js';
import { EtcdLeases, secondsFor, type EtcdLease } from './etcd-leases.js';
import {
  base64,
  EtcdFailure,
  hasValue,
  isAbsent,
  isLeaseNotFound,
  isNotLaterThan,
  isUnchanged,
  kvOf,
  type KeyValue,
  permanent,
  put,
  range,
  remove,
  TITLE,
  type Txn,
} from './gateway.js';
import {
  execute,
  grantOf,
  HeldKeys,
  KeyNames,
  parse,
  read,
  TokenBase,
  tokenOf,
  valueOf,
  type Grant,
} from './keys.js';
import type { EtcdSettings } from './options.js';
import { SharedKeys } from './shared-keys.js';

/** Milliseconds between requests while the servers elect a leader. */
const PAUSE = 20;
/** Milliseconds to wait before a watch that ended is opened again. */
const RETRY = 250;

/**
 * The maximum numbers of pending batches. Acquisitions cost the most, both for the servers and for this
 * process. With more batches at once, each answer would arrive later. A late answer is bad for a grant,
 * because the lease already runs on the server before the answer arrives.
 */
const MOST_ACQUIRING = 2;
const MOST_OTHERS = 8;

/** The maximum number of pending requests for the remaining times of listed leases. */
const AT_ONCE = 32;

/** A request to acquire keys: all of them or none. */
interface AttemptRequest extends Wanted {
  /**
   * Whether to read the keys before the first transaction. A read costs the servers less than a refused
   * transaction.
   */
  readonly readsFirst: boolean;
}

/** The state of an attempt in progress. */
interface AttemptState extends AttemptRequest {
  /** The last known grant of each key. */
  found: (Grant | undefined)[];
  /**
   * For each key, the minimum TTL of its new etcd lease, in seconds. It is 0 unless the attempt replaces a grant on
   * which its owner may rely.
   */
  least: number[];
  /** For each key, the etcd lease to which the pending transaction binds the key. */
  leases: readonly EtcdLease[];
  result: Granted | Refused | undefined;
}

/** Keys to renew or to release. */
interface Writing extends Owned {
  /** The owner to write. If undefined, the owner stays unchanged. */
  readonly keptOwner?: string | undefined;
  /** See {@link Grant.isClaimed}. Default false. */
  readonly claims?: boolean | undefined;
}

/** A key to renew or to release. */
interface Step<W extends Writing = Wanted & Writing> {
  readonly name: string;
  readonly wanted: W;
  /** The token of the required grant. If undefined, any grant of the owner matches. */
  readonly token: bigint | undefined;
  /** The last known grant of the key. */
  found: Grant | undefined;
  isDone: boolean;
  /** Whether another client wrote the key last, and a server did not know the key's etcd lease. */
  isUnknown: boolean;
}

/**
 * Leases in etcd. Each held key is bound to a separate etcd lease. Each change is a transaction that first
 * compares each key's revision with the revision that was read. So a transaction that is executed late or
 * twice changes nothing. Simultaneous operations share a request.
 */
export class EtcdBackend implements ListingBackend {
  readonly title = TITLE;
  readonly permanent = permanent;
  readonly releaseFeed: ReleaseFeed;
  readonly #cluster: Cluster;
  readonly #names: KeyNames;
  readonly #base: TokenBase;
  readonly #leases: EtcdLeases;
  readonly #held: HeldKeys;
  readonly #shared: SharedKeys;
  readonly #acquiring = new Batches<AttemptRequest, Granted | Refused>(
    MOST_ACQUIRING,
    (attempts, operation) => this.#acquireAll(attempts, operation),
  );
  readonly #renewing = new Batches<Wanted, readonly (boolean | undefined)[]>(
    MOST_OTHERS,
    (wanted, operation) => this.#change(wanted, operation, (keys) => this.#renew(keys, operation)),
  );
  readonly #keeping = new Batches<Wanted & Writing, readonly (boolean | undefined)[]>(
    MOST_OTHERS,
    (wanted, operation) => this.#change(wanted, operation, (keys) => this.#move(keys, operation)),
  );
  readonly #freeing = new Batches<Owned, readonly (boolean | undefined)[]>(MOST_OTHERS, (wanted, operation) =>
    this.#change(wanted, operation, (keys) => this.#free(keys, operation)),
  );

  constructor(settings: EtcdSettings) {
    this.#cluster = new Cluster(settings);
    this.#names = new KeyNames(settings.prefix);
    this.#base = new TokenBase(this.#cluster, this.#names.base);
    this.#leases = new EtcdLeases(this.#cluster, settings.drift);
    this.#held = new HeldKeys(this.#leases);
    this.#shared = new SharedKeys(this.#cluster, this.#names, this.#base, this.#leases, this.#held);
    this.releaseFeed = { retryAfter: RETRY, open: (listener) => this.#watch(listener) };
  }

  nameOf(key: string): string {
    return this.#names.of(key);
  }

  inOneStep(names: readonly string[]): boolean {
    return names.length <= MOST_KEYS;
  }

  acquire(wanted: Wanted, { isAwaited }: Attempt, operation: Operation): Promise<Granted | Refused> {
    return this.#acquiring.add({ ...wanted, readsFirst: isAwaited }, operation);
  }

  renew(keys: readonly Renewing[], operation: Operation): Promise<readonly (boolean | undefined)[]> {
    return eachOf(keys, async ({ name, owner, length, info }) => {
      for (;;) {
        const [renewed] = owner.startsWith(READERS)
          ? [await this.#shared.renew(name, owner, length, operation)]
          : await this.#renewing.add({ names: [name], owner, length, info }, operation);
        // A key with an unknown etcd lease must not delay the other keys.
        if (renewed !== undefined || keys.length > 1) return renewed;
        await operation.pause(PAUSE);
      }
    });
  }

  async keep({ name, owner, keptOwner, length, token }: Keeping, operation: Operation): Promise<boolean> {
    const wanted = { names: [name], owner, keptOwner, length, info: undefined, tokens: [token] };
    const [kept] = await this.#keeping.add(wanted, operation);
    return kept!;
  }

  release(keys: readonly Releasing[], operation: Operation): Promise<readonly (Release | undefined)[]> {
    return eachOf(keys, async ({ name, owner, token }) => {
      const tokens = token === undefined ? undefined : [token];
      const [isFreed] = await this.#freeing.add({ names: [name], owner, tokens }, operation);
      return isFreed! ? 'freed' : 'not held';
    });
  }

  acquireShared(wanted: WantedShared, _: Attempt, operation: Operation): Promise<GrantedShared | Refused> {
    return this.#shared.acquire(wanted, operation);
  }

  releaseShared(name: string, reader: string, operation: Operation): Promise<Release> {
    return this.#shared.release(name, reader, operation);
  }

  putOffReaders(name: string, milliseconds: number, operation: Operation): Promise<boolean> {
    return this.#shared.putOff(name, milliseconds, operation);
  }

  async inspect(name: string, operation: Operation): Promise<StoredLease | undefined> {
    for (let ended = ''; ;) {
      const [grant] = (await read(this.#cluster, operation, [name])).grants;
      if (grant === undefined || grant.lease === ended) return undefined;
      const held = await this.#heldAs(grant, operation);
      if (held !== undefined) return held;
      // Either the key expired with this etcd lease, or the key is now bound to another etcd lease. A second
      // read shows which of the two happened.
      ended = grant.lease;
    }
  }

  list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async (range, asked): Promise<Page> => {
      const request = { ...this.#names.in(range), limit: String(asked) };
      const { message } = await ask((operation) => this.#cluster.call(operation, 'kv/range', request));
      const { kvs = [] } = message;
      // The remaining time of each lease must be read with a separate request.
      const leases = await inGroups(kvs, AT_ONCE, (kv) => ask((operation) => this.#stateOf(kv, operation)));
      const last = kvs.length < asked ? undefined : this.#names.textOf(kvs.at(-1)!.key!);
      return { leases: leases.filter((lease) => lease !== undefined), last };
    });
  }

  async #stateOf(kv: KeyValue, operation: Operation): Promise<StoredKey | undefined> {
    const grant = parse(kv);
    if (grant === undefined) return undefined;
    // If the grant's etcd lease has ended, a renewal may have bound the key to another etcd lease. So the key
    // is read again.
    const held = (await this.#heldAs(grant, operation)) ?? (await this.inspect(kv.key!, operation));
    return held && { text: this.#names.textOf(kv.key!), ...held };
  }

  /** Undefined if the grant's etcd lease has ended. */
  async #heldAs(
    { owner, base, revision, info, lease }: Grant,
    operation: Operation,
  ): Promise<StoredLease | undefined> {
    const seconds = await this.#leases.secondsLeft(operation, lease);
    // The seconds are rounded down. So with 0 seconds, the key may still be held.
    if (seconds < 0) return undefined;
    return { owner, token: tokenOf(base, revision), remaining: seconds * 1000, info };
  }

  async close(): Promise<void> {
    await this.#leases.close();
    this.#cluster.close();
  }

  /**
   * Reports keys that are removed by a release, by expiry, or because their etcd lease was revoked, and keys whose
   * readers are no longer put off. The watch starts at the current revision, never at a past one, so compaction
   * cannot break the watch.
   */
  #watch({ subscribed, released, lost }: ReleaseListener): () => void {
    const request = { create_request: { ...this.#names.all, filters: ['NOPUT'] } };
    return this.#cluster.watch(
      request,
      ({ created, canceled, events = [] }) => {
        if (canceled) throw new Error('the watch was cancelled');
        if (created) subscribed();
        for (const { kv } of events) released(this.#names.leaseOf(kv?.key ?? ''));
      },
      () => lost(),
    );
  }

  /**
   * Runs one transaction per attempt. The transaction compares the token base and the keys with the values
   * that were read last, and binds each key to a separate etcd lease. Keys that were not read yet are assumed
   * to be free. If an owner already holds a key, its new etcd lease lasts at least as long as the old one.
   */
  async #acquireAll(
    attempts: readonly AttemptRequest[],
    operation: Operation,
  ): Promise<readonly (Granted | Refused)[]> {
    const tries: AttemptState[] = attempts.map((attempt) => {
      const [found, least] = [attempt.names.map(() => undefined), attempt.names.map(() => 0)];
      return { ...attempt, found, least, leases: [], result: undefined };
    });
    const reading = tries.filter(({ readsFirst }) => readsFirst);
    if (reading.length > 0) await this.#look(reading, operation);
    for (;;) {
      const open = tries.filter(({ result }) => result === undefined);
      if (open.length === 0) return tries.map(({ result }) => result!);
      if (!(await this.#prepare(open, operation))) {
        await this.#look(open, operation);
        continue;
      }
      const lengths = open.flatMap(({ length, least }) => least.map((one) => Math.max(length, 1000 * one)));
      const taken = await this.#leases.take(operation, lengths);
      for (const one of open) one.leases = taken.splice(0, one.names.length);
      try {
        await this.#tryAll(open, operation);
      } catch (error) {
        // An owner's earlier grant may have been replaced, or be replaced later. The owner may rely on its lease, so
        // the new etcd lease must not be revoked then. If it is unused, it expires.
        const isUncertain = !(error instanceof EtcdFailure) || error.uncertain;
        for (const { leases, least } of open) {
          leases.forEach((lease, i) => {
            if (!isUncertain || least[i] === 0) this.#leases.withdraw(lease);
          });
        }
        if (!isLeaseNotFound(error)) throw error;
        this.#leases.unpark();
      }
    }
  }

  /** Reads the keys of attempts, and refuses the attempts whose keys another owner holds. */
  async #look(attempts: readonly AttemptState[], operation: Operation): Promise<void> {
    const names = attempts.flatMap((one) => one.names);
    const { grants } = await read(this.#cluster, operation, names);
    for (const one of attempts) judge(one, grants.splice(0, one.names.length), operation);
  }

  /**
   * Prepares the replacement of grants that the attempts' owners already hold. First rewrites the keys with their
   * present etcd leases, unless another attempt has done so since the last renewal. A renewal that comes later finds the key rewritten, so it rewrites the key, too, and then the
   * transaction of the attempt fails. A renewal that came earlier has extended the present etcd lease before the new one
   * is taken, so the new one, which is at least as long, ends later. Returns false if the keys must be read again.
   */
  async #prepare(attempts: readonly AttemptState[], operation: Operation): Promise<boolean> {
    const own = attempts.flatMap((one) => {
      const { names, owner, length, found } = one;
      return names.flatMap((name, place) => {
        const grant = found[place];
        // No owner relies on a grant that this store is taking back.
        if (grant === undefined || grant.lease === '0' || this.#leases.isWithdrawn(grant.lease)) return [];
        const wanted = { names: [name], owner, length, info: undefined, claims: true };
        const step: Step = { name, wanted, token: undefined, found: grant, isDone: false, isUnknown: false };
        return [{ ...step, one, place, id: grant.lease }];
      });
    });
    if (own.length === 0) return true;
    const unclaimed = own.filter(({ found }) => !found!.isClaimed);
    try {
      const { written } = await this.#write(unclaimed, unclaimed, operation);
      if (!written.every(Boolean)) return false;
    } catch (error) {
      // The key has expired.
      if (isLeaseNotFound(error)) return false;
      throw error;
    }
    const seconds = await inGroups(own, AT_ONCE, async ({ name, wanted, id }) => {
      const held = this.#held.of(name, wanted.owner)?.lease;
      return held?.id === id ? held.seconds : this.#leases.ttlOf(operation, id);
    });
    own.forEach(({ one, place, found }, i) => {
      one.found[place] = found;
      one.least[place] = seconds[i]!;
    });
    if (!seconds.includes(0)) return true;
    // The key has expired, or a new leader does not know the etcd lease yet.
    await operation.pause(PAUSE);
    return false;
  }

  /**
   * Sends the transactions of the attempts. If this rejects, the caller must withdraw the etcd leases, except for those
   * that may replace a grant. The transactions with the other ones then fail even if they are executed later.
   */
  async #tryAll(tries: readonly AttemptState[], operation: Operation): Promise<void> {
    const base = await this.#base.get(operation);
    const values = tries.map(({ owner, info }) => valueOf(base, owner, info ?? ''));
    const txns = tries.map((one, i) => this.#binding(one, base, values[i]!));
    const { parts, revision, again } = await execute(this.#cluster, operation, txns);
    tries.forEach((one, i) => {
      const { names, owner, info = '', found, leases, least } = one;
      // From here on, the caller must not withdraw these leases, because the code below parks or keeps them.
      one.leases = [];
      const { succeeded = false, responses = [] } = parts[i]!;
      const [nowBase, ...now] = succeeded ? [] : responses.map(kvOf);
      // An earlier copy of this request may still be executed later, when the keys are free.
      if (again) for (const lease of leases) lease.tainted = true;
      const grants = again ? now.map((kv) => kv && parse(kv)) : [];
      // True if an earlier copy of the same request succeeded.
      const isBound = grants.length > 0 && grants.every((grant, j) => grant?.lease === leases[j]!.id);
      if (succeeded || isBound) {
        const at = isBound ? grants[0]!.revision : revision;
        one.result = this.#granting(one, tokenOf(base, at), leases);
        names.forEach((name, j) => {
          const lease = leases[j]!;
          // The transaction has unbound the key from the etcd lease of the owner's previous grant.
          const former = least[j]! > 0 ? this.#held.take(name, found[j]!.lease) : undefined;
          if (former) this.#leases.park(former);
          const kv = { value: values[i]!, mod_revision: at };
          const grant = grants[j] ?? { base, owner, revision: at, info, lease: lease.id, kv };
          // Since the earlier copy, a renewal by another client of the owner may have written the key.
          if (grant.kv.value === values[i]) this.#held.set(name, { grant, lease });
        });
      } else {
        leases.forEach((lease, j) => {
          // An earlier copy may have replaced a grant on which the owner relies, or may still do so.
          if (!again || least[j] === 0) this.#leases.park(lease);
        });
        this.#base.found(nowBase);
        judge(one, now.map(grantOf), operation);
      }
    });
  }

  #binding({ names, found, leases, least }: AttemptState, base: string, value: string): Txn {
    const key = this.#names.base;
    const isReplaceable = (name: string, i: number): object[] => {
      const grant = found[i];
      if (grant === undefined) return [isAbsent(name)];
      if (least[i]! > 0) return isUnchanged(name, grant.kv);
      // A comparison for equality would refuse too much, because the key may disappear during the request. When an
      // attempt times out, it withdraws its etcd lease, which removes the key. The owner's next attempt may have read
      // the key before the removal. Any other grant with the same base has a later revision, so the comparison fails
      // for it.
      return [isNotLaterThan(name, grant.kv)];
    };
    return {
      compare: [hasValue(key, base64(base)), ...names.flatMap(isReplaceable)],
      success: [
        ...names.map((name, i) => put(name, value, leases[i]!.id)),
        // An exclusive waiter has its turn now, so readers need not be put off.
        ...names.map((name) => remove(this.#names.putOff(name))),
      ],
      failure: [range(key), ...names.map(range)],
    };
  }

  #granting({ names, least }: AttemptState, token: bigint, leases: readonly EtcdLease[]): Granted {
    this.#base.seen(token);
    const giveBack = (place: number): void => {
      // The owner may rely on the lease of a grant that this one has replaced.
      if (least[place]! > 0) return;
      const lease = leases[place]!;
      this.#held.take(names[place]!, lease.id);
      this.#leases.withdraw(lease);
    };
    return { tokens: names.map(() => token), giveBack };
  }

  /**
   * Applies `change` repeatedly to the keys that their owners hold, until each key is done or no longer held.
   * Returns for each key whether it is done, or undefined if the key's etcd lease is unknown.
   */
  async #change<W extends Writing>(
    wanted: readonly W[],
    operation: Operation,
    change: (keys: readonly Step<W>[]) => Promise<void>,
  ): Promise<readonly (readonly (boolean | undefined)[])[]> {
    const keys = wanted.flatMap((one) =>
      one.names.map((name, i): Step<W> => {
        const found = this.#held.of(name, one.owner)?.grant;
        return { name, wanted: one, token: one.tokens?.[i], found, isDone: false, isUnknown: false };
      }),
    );
    const unknown = keys.filter(({ found }) => found === undefined);
    await this.#readGrants(unknown, operation);
    for (let open = keys.filter(isOpen); open.length > 0; open = open.filter(isOpen)) await change(open);
    for (const { name, wanted: one, found } of keys) {
      if (found?.owner !== one.owner) this.#held.forget(name, one.owner);
    }
    const results = keys.map((key) => (key.isUnknown ? undefined : key.isDone || isKept(key)));
    return wanted.map(({ names }) => results.splice(0, names.length));
  }

  /**
   * Extends the keys' etcd leases if they are long enough, and binds the other keys to new ones. A key that another
   * client wrote last is bound to a new etcd lease only after this store has rewritten it with the old one. So once a
   * renewal has found the key as its client wrote it, no request of another client can bind the key to an older etcd
   * lease.
   */
  async #renew(keys: readonly Step[], operation: Operation): Promise<void> {
    await this.#extend(keys, operation);
    const moves = keys.filter((key) => isOpen(key) && (this.#leaseOf(key) !== undefined || !hasLease(key)));
    if (moves.length === 0) return;
    // A renewal must not shorten the TTL.
    const least = moves.map((key) => this.#leaseOf(key)?.seconds ?? 0);
    await this.#move(moves, operation, least);
  }

  /** Reads the keys' current grants. Returns the Raft term. */
  async #readGrants(
    keys: readonly { readonly name: string; found: Grant | undefined }[],
    operation: Operation,
  ): Promise<string> {
    if (keys.length === 0) return '';
    const names = keys.map(({ name }) => name);
    const { grants, term } = await read(this.#cluster, operation, names);
    keys.forEach((key, i) => (key.found = grants[i]));
    return term;
  }

  /**
   * Extends the etcd leases of keys, if these leases are long enough and no `info` text must be written. If another
   * client wrote a key last, its etcd lease is extended in any case, and the key is rewritten, because an older
   * renewal by that client may still be in flight. That renewal compares revisions, so after the rewrite it can no
   * longer bind the key to another etcd lease. If a server does not know the etcd lease of a key that still exists, the
   * server may be a new leader that does not know the etcd lease yet. Such a key is marked as unknown.
   */
  async #extend(keys: readonly Step[], operation: Operation): Promise<void> {
    for (;;) {
      const lasting = keys.filter((key) => {
        const lease = this.#leaseOf(key);
        const { info, length } = key.wanted;
        if (!isOpen(key) || !hasLease(key)) return false;
        return !lease || (info === undefined && lease.seconds >= secondsFor(length));
      });
      if (lasting.length === 0) return;
      const asked = localNow();
      const ids = lasting.map(({ found }) => found!.lease);
      const { term, seconds } = await this.#leases.extend(operation, ids);
      const lengths = new Map(lasting.map((key, i) => [key, seconds[i]!]));
      const foreign = lasting.filter((key) => lengths.get(key)! > 0 && this.#leaseOf(key) === undefined);
      const others = lasting.filter((key) => !foreign.includes(key));
      const terms = await Promise.all([
        others.length === 0 ? term : this.#readGrants(others, operation),
        foreign.length === 0 ? term : this.#adopt(foreign, lengths, operation),
      ]);
      if (term !== '' && terms.every((one) => one === term)) {
        lasting.forEach((key, i) => {
          const lease = this.#leaseOf(key);
          if (lease === undefined || lease.id !== ids[i] || seconds[i] === 0) return;
          lease.since = Math.max(lease.since, asked);
          const { info = key.found!.info, length } = key.wanted;
          // Another renewal of this store may have rewritten the key meanwhile, without this `info` text.
          key.isDone = seconds[i]! >= secondsFor(length) && info === key.found!.info;
        });
        lasting.forEach((key, i) => {
          const isForeign = this.#leaseOf(key) === undefined;
          key.isUnknown = isOpen(key) && isForeign && seconds[i] === 0 && key.found!.lease === ids[i];
        });
        return;
      }
      await operation.pause(PAUSE);
    }
  }

  /**
   * Rewrites keys that another client wrote last, with their new `info` texts, if any. `lengths`: the TTLs of their
   * etcd leases, in seconds. Returns the Raft term.
   */
  async #adopt(
    keys: readonly Step[],
    lengths: ReadonlyMap<Step, number>,
    operation: Operation,
  ): Promise<string> {
    const leases = keys.map((key): EtcdLease => {
      const [id, seconds] = [key.found!.lease, lengths.get(key)!];
      // These leases are tainted, because another client may have requests in flight that use them. So no
      // other key is bound to them.
      return { id, seconds, since: 0, tainted: true };
    });
    const { written, term } = await this.#write(keys, leases, operation);
    keys.forEach(({ name, found }, i) => {
      if (written[i]) this.#held.set(name, { grant: found!, lease: leases[i]! });
    });
    return term;
  }

  /**
   * Binds keys to other etcd leases. `least` contains the minimum length of each new etcd lease, in seconds. First
   * removes the keys' entries from the cache. So if another renewal of this store finds a key meanwhile, it rewrites the
   * key before it reports success, and this move fails.
   */
  async #move(keys: readonly Step[], operation: Operation, least: readonly number[] = []): Promise<void> {
    const lengths = keys.map(({ wanted }, i) => Math.max(wanted.length, 1000 * (least[i] ?? 0)));
    const before = keys.map(({ name, found }) => {
      const { lease: id } = found!;
      return { id, known: this.#held.take(name, id) };
    });
    const leases = await this.#leases.take(operation, lengths);
    try {
      const { written, again } = await this.#write(keys, leases, operation);
      keys.forEach((key, i) => {
        key.isDone = written[i]!;
        if (written[i]) {
          const { id, known } = before[i]!;
          this.#leases.unbound(id, known);
          this.#held.set(key.name, { grant: key.found!, lease: leases[i]! });
        } else if (!again) {
          this.#leases.park(leases[i]!);
        } else if (key.found?.lease !== leases[i]!.id) {
          // An earlier copy of the request may have bound the key to the etcd lease, and another request may have
          // revoked the lease since.
          this.#leases.withdraw(leases[i]!);
        }
      });
    } catch (error) {
      // After an uncertain failure, the keys may be bound to the new etcd leases, so these leases must not be
      // revoked. Unused leases expire.
      const isUncertain = !(error instanceof EtcdFailure) || error.uncertain;
      if (!isUncertain) for (const lease of leases) this.#leases.withdraw(lease);
      throw error;
    }
  }

  /**
   * Writes those keys that are unchanged since they were read, and updates `found`. Tokens do not change.
   * Returns for each key whether it was written.
   */
  async #write(
    keys: readonly Step[],
    leases: readonly Pick<EtcdLease, 'id'>[],
    operation: Operation,
  ): Promise<{ written: readonly boolean[]; term: string; again: boolean }> {
    if (keys.length === 0) return { written: [], term: '', again: false };
    const next = keys.map(({ found, wanted }, i): Grant => {
      const { base, revision } = found!;
      const { keptOwner: owner = found!.owner, info = found!.info, claims: isClaimed } = wanted;
      const kv = { value: valueOf(base, owner, info, revision, isClaimed) };
      return { base, owner, revision, info, isClaimed, lease: leases[i]!.id, kv };
    });
    const txns = keys.map(({ name, found }, i) => ({
      compare: isUnchanged(name, found!.kv),
      success: [put(name, next[i]!.kv.value!, leases[i]!.id)],
      failure: [range(name)],
    }));
    const { parts, revision, term, again } = await execute(this.#cluster, operation, txns);
    const written = keys.map((key, i) => {
      const { succeeded = false, responses } = parts[i]!;
      const now = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
      const { kv, lease } = next[i]!;
      // True if an earlier copy of the same request succeeded. If the key keeps its etcd lease, another client may
      // have written the same value.
      const isRepeated = again && lease !== key.found!.lease && now?.lease === lease;
      const isWritten = succeeded || (isRepeated && now.kv.value === kv.value);
      const mod_revision = now?.kv.mod_revision ?? revision;
      key.found = isWritten ? { ...next[i]!, kv: { ...kv, mod_revision } } : now;
      return isWritten;
    });
    return { written, term, again };
  }

  /**
   * Releases keys only if they are unchanged since they were read, so a late request cannot release a later
   * grant.
   */
  async #free(keys: readonly Step<Owned>[], operation: Operation): Promise<void> {
    const before = keys.map(({ found }) => found!);
    const txns = keys.map(({ name }, i) => ({
      compare: isUnchanged(name, before[i]!.kv),
      success: [remove(name)],
      failure: [range(name)],
    }));
    const { parts, again } = await execute(this.#cluster, operation, txns).catch((error: unknown) => {
      for (const { name, wanted } of keys) this.#held.forget(name, wanted.owner);
      throw error;
    });
    for (const [i, key] of keys.entries()) {
      const { succeeded = false, responses } = parts[i]!;
      const { lease } = before[i]!;
      key.found = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
      key.isDone = succeeded;
      if (succeeded) this.#held.leave(key.name, before[i]!);
      // If the same grant is bound to another etcd lease, another request has moved the key, and the next round
      // releases it.
      const isGone = again && !succeeded && key.found?.lease !== lease && !isSameGrant(before[i]!, key.found);
      // Probably, an earlier copy of the request removed the key. If the key had expired instead, its etcd
      // lease would no longer exist. The etcd lease is revoked only if no store can have bound another key to it:
      // this store created the lease, and has not taken it out of the cache.
      if (isGone) {
        const isUnused = this.#held.take(key.name, lease)?.tainted === false;
        key.isDone = await this.#leases[isUnused ? 'revoke' : 'exists'](operation, lease);
      }
    }
  }

  /** The key's etcd lease. Undefined if another client wrote the key last. */
  #leaseOf({ name, wanted, found }: Step): EtcdLease | undefined {
    const held = this.#held.of(name, wanted.owner);
    return held && isSame(held.grant, found) ? held.lease : undefined;
  }
}

/** Returns undefined for each key whose request failed. Rejects only if all requests failed. */
async function eachOf<K, T>(
  keys: readonly K[],
  ask: (key: K) => Promise<T>,
): Promise<readonly (T | undefined)[]> {
  const results = await Promise.allSettled(keys.map(ask));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined && results.every(({ status }) => status === 'rejected')) throw failed.reason;
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
}

function isOpen({ found, wanted, token, isDone, isUnknown }: Step<Writing>): boolean {
  if (isDone || isUnknown || found?.owner !== wanted.owner) return false;
  return token === undefined || token === tokenOf(found.base, found.revision);
}

/** Whether `keep` has ended the required grant. */
function isKept({ found, wanted, token }: Step<Writing>): boolean {
  if (found === undefined || found.owner !== wanted.keptOwner) return false;
  return token === tokenOf(found.base, found.revision);
}

/** False for a key that is bound to no etcd lease. This store does not write such keys. */
function hasLease({ found }: Step): boolean {
  return found?.lease !== '0';
}

/** Whether both are the same grant. A renewal may have changed its `info` or its etcd lease. */
function isSameGrant({ owner, base, revision }: Grant, other: Grant | undefined): boolean {
  return owner === other?.owner && base === other.base && revision === other.revision;
}

function isSame({ kv }: Grant, other: Grant | undefined): boolean {
  return kv.mod_revision === other?.kv.mod_revision && kv.value === other?.kv.value;
}

/** Stores the grants that were read. Refuses the attempt if another owner holds one of the attempt's keys. */
function judge(one: AttemptState, found: (Grant | undefined)[], { isSubscribed }: Operation): void {
  one.found = found;
  one.least = found.map(() => 0);
  const place = found.findIndex((grant) => grant !== undefined && grant.owner !== one.owner);
  // If the store was subscribed before the read, the server will notify it of the release.
  if (place >= 0) one.result = { place, isRegistered: isSubscribed };
}
