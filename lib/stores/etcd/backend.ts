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
import { Attempts } from './attempts.js';
import { Batches, MOST_KEYS } from './batches.js';
import { Cluster } from './cluster.js';
import { AT_ONCE, ELECTION_PAUSE, EtcdLeases, secondsFor, type EtcdLease } from './etcd-leases.js';
import { EtcdFailure, isUnchanged, kvOf, type KeyValue, permanent, range, remove, TITLE } from './gateway.js';
import { execute, grantOf, HeldKeys, KeyNames, parse, read, TokenBase, tokenOf, type Grant } from './keys.js';
import type { EtcdSettings } from './options.js';
import { rewrite, type Step, type Writing } from './rewrites.js';
import { SharedKeys } from './shared-keys.js';

/** Milliseconds to wait before a watch that ended is opened again. */
const RETRY = 250;

/** The maximum number of pending batches of each kind, except for acquisitions: see {@link Attempts}. */
const MOST_OTHERS = 8;

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
  readonly #attempts: Attempts;
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
    this.#attempts = new Attempts(this.#cluster, this.#names, this.#base, this.#leases, this.#held);
    this.#shared = new SharedKeys(this.#cluster, this.#names, this.#base, this.#leases, this.#held);
    this.releaseFeed = { retryAfter: RETRY, open: (listener) => this.#watch(listener) };
  }

  nameOf(key: string): string {
    return this.#names.of(key);
  }

  inOneStep(names: readonly string[]): boolean {
    return names.length <= MOST_KEYS;
  }

  acquire(wanted: Wanted, attempt: Attempt, operation: Operation): Promise<Granted | Refused> {
    return this.#attempts.acquire(wanted, attempt, operation);
  }

  renew(keys: readonly Renewing[], operation: Operation): Promise<readonly (boolean | undefined)[]> {
    return eachOf(keys, async ({ name, owner, length, info }) => {
      for (;;) {
        const [renewed] = owner.startsWith(READERS)
          ? [await this.#shared.renew(name, owner, length, operation)]
          : await this.#renewing.add({ names: [name], owner, length, info }, operation);
        // A key with an unknown etcd lease must not delay the other keys.
        if (renewed !== undefined || keys.length > 1) return renewed;
        await operation.pause(ELECTION_PAUSE);
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
        return { name, wanted: one, token: one.tokens?.[i], found, isDone: false, isLeaseUnknown: false };
      }),
    );
    const unknown = keys.filter(({ found }) => found === undefined);
    await this.#readGrants(unknown, operation);
    for (let open = keys.filter(isOpen); open.length > 0; open = open.filter(isOpen)) await change(open);
    for (const { name, wanted: one, found } of keys) {
      if (found?.owner !== one.owner) this.#held.forget(name, one.owner);
    }
    const results = keys.map((key) => (key.isLeaseUnknown ? undefined : key.isDone || isKept(key)));
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
          key.isLeaseUnknown = isOpen(key) && isForeign && seconds[i] === 0 && key.found!.lease === ids[i];
        });
        return;
      }
      await operation.pause(ELECTION_PAUSE);
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
    const { written, term } = await rewrite(this.#cluster, keys, leases, operation);
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
      const { written, again } = await rewrite(this.#cluster, keys, leases, operation);
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

function isOpen({ found, wanted, token, isDone, isLeaseUnknown }: Step<Writing>): boolean {
  if (isDone || isLeaseUnknown || found?.owner !== wanted.owner) return false;
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
