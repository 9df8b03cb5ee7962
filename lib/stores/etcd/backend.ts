import { localNow } from '../../common/elapsed.js';
import type { Operation } from '../requests.js';
import type {
  Attempt,
  Backend,
  Granted,
  Kept,
  Owned,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
} from '../server-store.js';
import type { Ears, Hearing } from '../wakers.js';
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
  read,
  TokenBase,
  tokenOf,
  valueOf,
  type Grant,
  type Outcome,
} from './keys.js';
import type { EtcdSettings } from './options.js';

/** Milliseconds between questions while servers choose a leader. */
const PAUSE = 20;
/** Milliseconds until a watch that has ended is opened again. */
const RETRY = 250;

/**
 * Batches under way. An acquisition costs the servers and this process most, and its time counts from before it was asked
 * for: if all were under way at once, they would all be answered late.
 */
const MOST_ACQUIRING = 2;
const MOST_OTHERS = 8;

/** An attempt at keys, all or none. */
interface Acquiring extends Wanted {
  /** Whether it looks first, which costs the servers less than a transaction that is refused. */
  readonly looks: boolean;
}

/** Such an attempt under way. */
interface Try extends Acquiring {
  /** Who has the keys, as far as known. */
  found: readonly (Grant | undefined)[];
  /** For each key, while a transaction is under way. */
  leases: readonly EtcdLease[];
  result: Granted | Refused | undefined;
}

/** A key that is to be renewed or freed. */
interface Step<W extends Owned = Wanted> {
  readonly name: string;
  readonly wanted: W;
  /** Of the grant that is meant; undefined for any. */
  readonly token: bigint | undefined;
  /** What stands there, as far as known. */
  found: Grant | undefined;
  isDone: boolean;
}

/**
 * Leases in etcd. Each key that is held is bound to an etcd lease of its own. Each operation is one transaction, which
 * compares what was found before: by its revision, so that one which is executed late, or twice, changes nothing. What is
 * asked for at the same time goes to the servers together.
 */
export class EtcdBackend implements Backend {
  readonly title = TITLE;
  readonly permanent = permanent;
  readonly hearing: Hearing;
  readonly #cluster: Cluster;
  readonly #names: KeyNames;
  readonly #base: TokenBase;
  readonly #leases: EtcdLeases;
  readonly #held = new HeldKeys();
  readonly #acquiring = new Batches<Acquiring, Granted | Refused>(MOST_ACQUIRING, (attempts, operation) =>
    this.#acquireAll(attempts, operation),
  );
  readonly #renewing = new Batches<Wanted, readonly boolean[]>(MOST_OTHERS, (wanted, operation) =>
    this.#change(wanted, operation, (keys) => this.#renew(keys, operation)),
  );
  readonly #keeping = new Batches<Wanted, readonly boolean[]>(MOST_OTHERS, (wanted, operation) =>
    this.#change(wanted, operation, (keys) => this.#move(keys, operation)),
  );
  readonly #freeing = new Batches<Owned, readonly boolean[]>(MOST_OTHERS, (wanted, operation) =>
    this.#change(wanted, operation, (keys) => this.#free(keys, operation)),
  );

  constructor(settings: EtcdSettings) {
    this.#cluster = new Cluster(settings);
    this.#names = new KeyNames(settings.prefix);
    this.#base = new TokenBase(this.#cluster, this.#names.base);
    this.#leases = new EtcdLeases(this.#cluster, settings.drift);
    this.hearing = { retryAfter: RETRY, open: (ears) => this.#watch(ears) };
  }

  nameOf(key: string): string {
    return this.#names.of(key);
  }

  inOneStep(names: readonly string[]): boolean {
    return names.length <= MOST_KEYS;
  }

  acquire(wanted: Wanted, { isAwaited }: Attempt, operation: Operation): Promise<Granted | Refused> {
    return this.#acquiring.add({ ...wanted, looks: isAwaited }, operation);
  }

  renew(keys: readonly Renewing[], operation: Operation): Promise<readonly (boolean | undefined)[]> {
    return eachOf(keys, async ({ name, owner, length, info }) => {
      const [renewed] = await this.#renewing.add({ names: [name], owner, length, info }, operation);
      return renewed!;
    });
  }

  async keep(wanted: Wanted, operation: Operation): Promise<boolean> {
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

  async inspect(name: string, operation: Operation): Promise<Kept | undefined> {
    for (let ended = ''; ;) {
      const [grant] = (await read(this.#cluster, operation, [name])).grants;
      if (grant === undefined || grant.lease === ended) return undefined;
      const { message } = await this.#cluster.call(operation, 'lease/timetolive', { ID: grant.lease });
      const seconds = Number(message.TTL ?? 0);
      const { owner, base, revision, info } = grant;
      // Whole seconds that are left. In the last one it is still held.
      if (seconds >= 0) return { owner, token: tokenOf(base, revision), remaining: seconds * 1000, info };
      // The key has ended with it since, or is bound to another one.
      ended = grant.lease;
    }
  }

  async close(): Promise<void> {
    await this.#leases.close();
    this.#cluster.close();
  }

  /**
   * Hears of keys that are removed: by a release, by expiry, or with an etcd lease that was revoked. It begins with what
   * comes, never with a revision of the past, so nothing that it needs can be compacted.
   */
  #watch({ ready, heard, lost }: Ears): () => void {
    const request = { create_request: { ...this.#names.all, filters: ['NOPUT'] } };
    return this.#cluster.watch(
      request,
      ({ created, canceled, events = [] }) => {
        if (canceled) throw new Error('the watch was cancelled');
        if (created) ready();
        for (const { kv } of events) heard(kv?.key ?? '');
      },
      () => lost(),
    );
  }

  /**
   * For each attempt a transaction compares the base of tokens and that the keys are as they were found; the first assumes
   * that they are free. It binds each key to an etcd lease of its own.
   */
  async #acquireAll(
    attempts: readonly Acquiring[],
    operation: Operation,
  ): Promise<readonly (Granted | Refused)[]> {
    const tries: Try[] = attempts.map((attempt) => {
      return { ...attempt, found: attempt.names.map(() => undefined), leases: [], result: undefined };
    });
    const looking = tries.filter(({ looks }) => looks);
    if (looking.length > 0) {
      const names = looking.flatMap((one) => one.names);
      const { grants } = await read(this.#cluster, operation, names);
      for (const one of looking) judge(one, grants.splice(0, one.names.length), operation);
    }
    for (;;) {
      const open = tries.filter(({ result }) => result === undefined);
      if (open.length === 0) return tries.map(({ result }) => result!);
      for (const one of open) one.leases = one.names.map(() => this.#leases.take(operation, one.length));
      const wereParked = open.some(({ leases }) => leases.some(({ made }) => made));
      try {
        await this.#tryAll(open, operation);
      } catch (error) {
        for (const { leases } of open) for (const lease of leases) this.#leases.withdraw(lease);
        if (!wereParked || !isLeaseNotFound(error)) throw error;
        this.#leases.unpark();
      }
    }
  }

  /** If this rejects, the etcd leases must be withdrawn: a transaction that is still on its way fails without them. */
  async #tryAll(tries: readonly Try[], operation: Operation): Promise<void> {
    const taken = tries.flatMap(({ leases }) => leases);
    const base = await this.#base.get(operation);
    const values = tries.map(({ owner, info }) => valueOf(base, owner, info ?? ''));
    const txns = tries.map((one, i) => this.#binding(one, base, values[i]!));
    const { parts, revision, again } = await this.#execute(txns, taken, operation);
    tries.forEach((one, i) => {
      const { names, owner, info = '', found, leases } = one;
      // What follows says what becomes of them.
      one.leases = [];
      const { succeeded = false, responses = [] } = parts[i]!;
      const [nowBase, ...now] = succeeded ? [] : responses.map(kvOf);
      // Another send of the same request may be executed later, if the keys are free then.
      if (again) for (const lease of leases) lease.tainted = true;
      // An earlier send did it.
      const isBound = again && now.length > 0 && now.every((kv, j) => kv?.lease === leases[j]!.id);
      if (succeeded || isBound) {
        const at = isBound ? now[0]!.mod_revision! : revision;
        one.result = this.#granting(names, tokenOf(base, at), leases);
        names.forEach((name, j) => {
          const lease = leases[j]!;
          // What the owner had before.
          if (found[j] !== undefined && found[j].lease !== lease.id) this.#leave(name, found[j]);
          const grant = { base, owner, revision: at, info, lease: lease.id };
          this.#held.set(name, { grant: { ...grant, kv: { value: values[i]!, mod_revision: at } }, lease });
        });
      } else {
        for (const lease of leases) this.#leases.park(lease);
        this.#base.found(nowBase);
        judge(one, now.map(grantOf), operation);
      }
    });
  }

  #binding({ names, found, leases }: Try, base: string, value: string): Txn {
    const key = this.#names.base;
    // It may go meanwhile: an attempt that had no answer in time withdraws its etcd lease, while the next one has found
    // what that granted. With the same base, revisions of others' grants are later.
    const isNotLater = (name: string, grant: Grant | undefined): object =>
      grant === undefined ? isAbsent(name) : isNotLaterThan(name, grant.kv);
    return {
      compare: [hasValue(key, base64(base)), ...names.map((name, i) => isNotLater(name, found[i]))],
      success: names.map((name, i) => put(name, value, leases[i]!.id)),
      failure: [range(key), ...names.map(range)],
    };
  }

  #granting(names: readonly string[], token: bigint, leases: readonly EtcdLease[]): Granted {
    this.#base.seen(token);
    const giveBack = (place: number): void => {
      const lease = leases[place]!;
      this.#held.take(names[place]!, lease.id);
      this.#leases.withdraw(lease);
    };
    return { tokens: names.map(() => token), giveBack };
  }

  /** Changes the keys that are their owners', until all of these are done. Says of which that was so. */
  async #change<W extends Owned>(
    wanted: readonly W[],
    operation: Operation,
    change: (keys: readonly Step<W>[]) => Promise<void>,
  ): Promise<readonly (readonly boolean[])[]> {
    const keys = wanted.flatMap((one) =>
      one.names.map((name, i): Step<W> => {
        const found = this.#held.of(name, one.owner)?.grant;
        return { name, wanted: one, token: one.tokens?.[i], found, isDone: false };
      }),
    );
    const unknown = keys.filter(({ found }) => found === undefined);
    await this.#look(unknown, operation);
    for (let open = keys.filter(isOpen); open.length > 0; open = open.filter(isOpen)) await change(open);
    for (const { name, wanted: one, found } of keys) {
      if (found?.owner !== one.owner) this.#held.forget(name, one.owner);
    }
    let at = 0;
    return wanted.map(({ names }) => keys.slice(at, (at += names.length)).map(({ isDone }) => isDone));
  }

  async #renew(keys: readonly Step[], operation: Operation): Promise<void> {
    await this.#extend(keys, operation);
    const moves = keys.filter(isOpen);
    if (moves.length === 0) return;
    await this.#move(moves, operation, await this.#secondsOf(moves, operation));
  }

  /** How long the etcd lease of each key lasts, which a renewal must not shorten. 0 if that is shorter than what is wanted. */
  async #secondsOf(keys: readonly Step[], operation: Operation): Promise<readonly number[]> {
    const lengths = keys.map((key) => this.#lengthOf(key));
    // Without an info to write, `#extend` has asked before.
    const unknown = keys.filter(({ wanted }, i) => lengths[i] === undefined && wanted.info !== undefined);
    if (unknown.length === 0) return lengths.map((length) => length ?? 0);
    const ids = unknown.map(({ found }) => found!.lease);
    const { seconds } = await this.#leases.extend(operation, ids);
    return keys.map((key, i) => lengths[i] ?? seconds[unknown.indexOf(key)] ?? 0);
  }

  /** Notes what stands at the keys. Returns the term. */
  async #look(
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
   * Extends the etcd leases of keys, if they are long enough. A key of another client is written as it is, too: an
   * earlier renewal by that client, which may still be on its way, compares what it has found, and then binds the key to no
   * etcd lease that ends sooner.
   */
  async #extend(keys: readonly Step[], operation: Operation): Promise<void> {
    for (;;) {
      const lasting = keys.filter(
        (key) => isOpen(key) && key.wanted.info === undefined && this.#hasLength(key),
      );
      if (lasting.length === 0) return;
      const asked = localNow();
      const ids = lasting.map(({ found }) => found!.lease);
      const { term, seconds } = await this.#leases.extend(operation, ids);
      const lengths = new Map(lasting.map((key, i) => [key, seconds[i]!]));
      const extended = lasting.filter((key) => lengths.get(key)! >= secondsFor(key.wanted.length));
      const known = lasting.filter((key) => this.#lengthOf(key) !== undefined);
      const foreign = extended.filter((key) => !known.includes(key));
      const terms = await Promise.all([
        known.length === 0 ? term : this.#look(known, operation),
        foreign.length === 0 ? term : this.#adopt(foreign, lengths, operation),
      ]);
      if (term !== '' && terms.every((one) => one === term)) {
        lasting.forEach((key, i) => {
          const held = this.#held.of(key.name, key.wanted.owner);
          if (held?.lease.id !== ids[i] || seconds[i] === 0 || !isSame(held!.grant, key.found)) return;
          held!.lease.since = Math.max(held!.lease.since, asked);
          key.isDone = true;
        });
        return;
      }
      await operation.pause(PAUSE);
    }
  }

  /** Writes keys of another client again, as they are. `lengths`: of their etcd leases, in seconds. Returns the term. */
  async #adopt(
    keys: readonly Step[],
    lengths: ReadonlyMap<Step, number>,
    operation: Operation,
  ): Promise<string> {
    const leases = keys.map((key): EtcdLease => {
      const [id, seconds] = [key.found!.lease, lengths.get(key)!];
      // Another client may know more about it, so it is never used for another key.
      return { id, seconds, since: 0, made: true, making: Promise.resolve(), tainted: true };
    });
    const { written, term } = await this.#write(keys, leases, operation);
    keys.forEach(({ name, found }, i) => {
      if (written[i]) this.#held.set(name, { grant: found!, lease: leases[i]! });
    });
    return term;
  }

  /** Binds keys to other etcd leases. `least`: for each key, the seconds that the etcd lease must last. */
  async #move(keys: readonly Step[], operation: Operation, least: readonly number[] = []): Promise<void> {
    const lengths = keys.map(({ wanted }, i) => Math.max(wanted.length, 1000 * (least[i] ?? 0)));
    const leases = lengths.map((length) => this.#leases.take(operation, length));
    const before = keys.map(({ found }) => found!);
    try {
      const { written } = await this.#write(keys, leases, operation);
      keys.forEach((key, i) => {
        key.isDone = written[i]!;
        if (written[i]) {
          this.#leave(key.name, before[i]!);
          this.#held.set(key.name, { grant: key.found!, lease: leases[i]! });
        } else {
          this.#leases.park(leases[i]!);
        }
      });
    } catch (error) {
      for (const { name, wanted } of keys) this.#held.forget(name, wanted.owner);
      // If it may have been done, the keys need their new leases. Those that nothing is bound to end by themselves.
      const isUncertain = !(error instanceof EtcdFailure) || error.uncertain;
      if (!isUncertain) for (const lease of leases) this.#leases.withdraw(lease);
      throw error;
    }
  }

  /** Writes keys that still are as they were found. Says which, and notes what stands there then. Their tokens stay. */
  async #write(
    keys: readonly Step[],
    leases: readonly EtcdLease[],
    operation: Operation,
  ): Promise<{ written: readonly boolean[]; term: string }> {
    const next = keys.map(({ found, wanted }, i): Grant => {
      const { base, owner, revision, info } = {
        ...found!,
        ...(wanted.info !== undefined && { info: wanted.info }),
      };
      const kv = { value: valueOf(base, owner, info, revision) };
      return { base, owner, revision, info, lease: leases[i]!.id, kv };
    });
    const txns = keys.map(({ name, found }, i) => ({
      compare: isUnchanged(name, found!.kv),
      success: [put(name, next[i]!.kv.value!, leases[i]!.id)],
      failure: [range(name)],
    }));
    const { parts, revision, term, again } = await this.#execute(txns, leases, operation);
    const written = keys.map((key, i) => {
      const { succeeded = false, responses } = parts[i]!;
      const now = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
      const { kv, lease } = next[i]!;
      // Perhaps an earlier send did it.
      const isWritten = succeeded || (again && now?.lease === lease && now.kv.value === kv.value);
      const mod_revision = now?.kv.mod_revision ?? revision;
      key.found = isWritten ? { ...next[i]!, kv: { ...kv, mod_revision } } : now;
      return isWritten;
    });
    return { written, term };
  }

  /** A key is removed only as it was found, so that a request that comes late frees no later grant. */
  async #free(keys: readonly Step<Owned>[], operation: Operation): Promise<void> {
    const before = keys.map(({ found }) => found!);
    const txns = keys.map(({ name }, i) => ({
      compare: isUnchanged(name, before[i]!.kv),
      success: [remove(name)],
      failure: [range(name)],
    }));
    const { parts, again } = await this.#execute(txns, [], operation).catch((error: unknown) => {
      for (const { name, wanted } of keys) this.#held.forget(name, wanted.owner);
      throw error;
    });
    for (const [i, key] of keys.entries()) {
      const { succeeded = false, responses } = parts[i]!;
      key.found = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
      key.isDone = succeeded;
      if (succeeded) this.#leave(key.name, before[i]!);
      const isGone = again && !succeeded && key.found?.lease !== before[i]!.lease;
      // An earlier send did it. If it had expired, its etcd lease would be gone.
      if (isGone) key.isDone = await this.#leases.revoke(operation, before[i]!.lease);
    }
  }

  /** Keeps or ends the etcd lease of a grant that is at the name no more. */
  #leave(name: string, grant: Grant): void {
    const lease = this.#held.take(name, grant.lease);
    if (lease) this.#leases.park(lease);
    else this.#leases.withdraw({ id: grant.lease, made: true });
  }

  /**
   * Sends transactions together, at once with the request that makes their etcd lease. If the servers come to it first,
   * they refuse it, and it is sent again. Those that need several new leases wait: most would be refused.
   */
  async #execute(txns: readonly Txn[], leases: readonly EtcdLease[], operation: Operation): Promise<Outcome> {
    const made = leases.filter((lease) => !lease.made);
    const send = (): Promise<Outcome> => execute(this.#cluster, operation, txns);
    if (made.length > 1) await Promise.all(made.map(({ making }) => making));
    try {
      return await send();
    } catch (error) {
      if (made.length !== 1 || !isLeaseNotFound(error) || (error as EtcdFailure).uncertain) throw error;
      await made[0]!.making;
      return send();
    }
  }

  /** Whether its etcd lease may be long enough. That of another client is known once it was extended. */
  #hasLength(key: Step): boolean {
    const length = this.#lengthOf(key);
    return length === undefined || length >= secondsFor(key.wanted.length);
  }

  /** The length of its etcd lease in seconds, if this client has written the key last. */
  #lengthOf({ name, wanted, found }: Step): number | undefined {
    const held = this.#held.of(name, wanted.owner);
    return held?.lease.id === found?.lease ? held?.lease.seconds : undefined;
  }
}

/** Undefined for what failed, unless all failed. */
async function eachOf<K, T>(
  keys: readonly K[],
  ask: (key: K) => Promise<T>,
): Promise<readonly (T | undefined)[]> {
  const results = await Promise.allSettled(keys.map(ask));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined && results.every(({ status }) => status === 'rejected')) throw failed.reason;
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
}

function isOpen({ found, wanted, token, isDone }: Step<Owned>): boolean {
  if (isDone || found?.owner !== wanted.owner) return false;
  return token === undefined || token === tokenOf(found.base, found.revision);
}

function isSame({ kv }: Grant, other: Grant | undefined): boolean {
  return kv.mod_revision === other?.kv.mod_revision && kv.value === other?.kv.value;
}

/** Notes who has the keys, and that the attempt is refused if another owner has one. */
function judge(one: Try, found: readonly (Grant | undefined)[], { hears }: Operation): void {
  one.found = found;
  const place = found.findIndex((grant) => grant !== undefined && grant.owner !== one.owner);
  // If the store heard before it asked, it will hear of the release.
  if (place >= 0) one.result = { place, isKnown: hears };
}
