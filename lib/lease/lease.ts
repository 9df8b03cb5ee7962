import { inspect, type InspectOptions } from 'node:util';
import { threadBound } from '../common/thread-bound.js';
import type { HostSignal, LockMode } from '../common/types.js';
import { LeaseLostError, noSingleKey, sharedInfo } from './contract/errors.js';
import { checkInfo, checkTtl, type FencingToken } from './contract/lease-store.js';
import { type Hold, type LossListener, OTHER_LOST } from './hold.js';

const THREAD_BOUND = threadBound('Lease', 'create a LeaseManager there, over the same store, and acquire');

/**
 * For managers only: creates a lease of these holds, which must be sorted in the order in which acquisitions
 * take keys.
 */
export let createLease: (holds: readonly Hold[]) => Lease;
/** For managers only: releases a lease whose keys were not used, without regard to its `minHold`. */
export let giveBackLease: (lease: Lease) => Promise<boolean>;

/**
 * The value of `#releasing` while `release` runs. A listener of the signal or of a diagnostics channel may then
 * call `release` again.
 */
const RELEASING = Promise.resolve(false);

/**
 * A lease holds a key in a store for a limited time, and can be renewed. It belongs to the thread that
 * acquired it.
 *
 * A lease can have several keys. It is held while all of its keys are held, and has one deadline. All its
 * keys are renewed and released together. Each key has a separate token: see {@link tokens}.
 *
 * A lease can expire at any time. Between a check of {@link held} and the next statement, the process can be
 * paused for longer than the lease lasts. So pass {@link token} along with every write, and let the resource
 * refuse a token that is lower than the highest token that the resource has seen (see `FencingGate`).
 */
export class Lease implements AsyncDisposable {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #holds: readonly Hold[];
  /** False if the acquisition was aborted before its caller got the lease. */
  #wasUsed = true;
  #controller: AbortController | undefined = undefined;
  /** The result of the last call of {@link release}; undefined before the first call. */
  #releasing: Promise<boolean> | undefined = undefined;
  /** A listener that ends the other holds if one of several holds is lost. Undefined for a single hold. */
  readonly #others: LossListener | undefined;
  /** After a release: the holds that have no other user and were not freed yet. */
  #toFree: Hold[] = [];

  private constructor(holds: readonly Hold[]) {
    this.#holds = holds;
    this.#others = holds.length > 1 ? othersOf(holds) : undefined;
    for (const hold of holds) hold.keep(this);
  }

  /** The key of the lease. Throws a LockError (ERR_LEASE_KEYS) if the lease has several keys, or none. */
  get key(): string {
    return singleHold('key', this.#holds).key;
  }

  /**
   * The keys of the lease, each once, sorted by their UTF-16 code units. Acquisitions take keys in this
   * order.
   */
  get keys(): readonly string[] {
    return Object.freeze(this.#holds.map(({ key }) => key));
  }

  /**
   * The slot of the lease, if its key has a limit: a number from 0 to limit - 1. It stays the same while the
   * lease is held, and no other holder has this slot during that time. Without a limit, the slot is 0.
   */
  get slot(): number {
    return this.#holds[0]?.terms.slot ?? 0;
  }

  /**
   * Whether other shared leases can hold the key at the same time. If a shared acquisition shares an exclusive
   * lease of a `reentrant` manager, the mode is `exclusive`. For several keys, the mode is `shared` if one of
   * the keys is shared.
   */
  get mode(): LockMode {
    return this.#holds.some(({ terms }) => terms.mode === 'shared') ? 'shared' : 'exclusive';
  }

  /**
   * The fencing token of the lease. It is higher than the tokens of all earlier holders of the key. With a
   * limit, it is only higher than the tokens of earlier holders of the same {@link slot}. Shared leases that
   * hold the key together have the same token. Renewals do not change the token. Throws a LockError
   * (ERR_LEASE_KEYS) if the lease has several keys, or none: tokens of different keys cannot be compared.
   */
  get token(): FencingToken {
    return singleHold('token', this.#holds).token;
  }

  /** The {@link token} of each key, in the order of {@link keys}. */
  get tokens(): ReadonlyMap<string, FencingToken> {
    return new Map(this.#holds.map(({ key, token }) => [key, token]));
  }

  /**
   * Whether the last holder of the key left it without a release: the lease expired, or was revoked. The data
   * that the lease protects may then be half-written. The value is undefined if the store does not know it;
   * see the store's page. If the key has a limit, the value is about the last holder of the same
   * {@link slot}. For several keys, the value is true if one of the keys was abandoned.
   *
   * All leases that share the key have the same value. If a named holder acquires its own unexpired lease
   * again, the new lease has the value of the old lease.
   */
  get abandoned(): boolean | undefined {
    const holds = this.#holds;
    if (holds.some(({ abandoned }) => abandoned === true)) return true;
    return holds.every(({ abandoned }) => abandoned === false) ? false : undefined;
  }

  /**
   * The name of the lease's owner in the store. Empty if the lease has no keys. Shared leases that hold a key
   * together have the same owner there.
   */
  get holder(): string {
    return this.#holds[0]?.owner ?? '';
  }

  /**
   * The local deadline of the lease, in milliseconds on the manager's clock. It is never later than the
   * store's deadline. For several keys, it is the earliest of their deadlines; without keys, it is Infinity.
   */
  get expiresAt(): number {
    return this.#holds.reduce((earliest, { expiresAt }) => Math.min(earliest, expiresAt), Infinity);
  }

  /**
   * The number of leases that have joined each other at the key, including this lease until it is released.
   * Only leases of a manager with `reentrant` join each other. For several keys, the result is the number for
   * the key with the most leases.
   */
  get users(): number {
    if (this.#holds.length === 0) return this.#releasing === undefined ? 1 : 0;
    return Math.max(...this.#holds.map(({ users }) => users));
  }

  /**
   * Whether the lease is held now. Reads the clock, so the result is right even after the event loop was
   * blocked.
   */
  get held(): boolean {
    return this.#releasing === undefined && checkHeld(this.#holds);
  }

  /**
   * A signal that aborts with a LeaseLostError when the lease is lost. A lease is also lost when its local
   * deadline passes while a renewal has no answer. A release does not abort the signal. Reading the signal's
   * `aborted` reads the clock, as {@link held} does.
   */
  get signal(): HostSignal {
    if (this.#controller) return this.#controller.signal;
    const holds = this.#holds;
    const controller = new AbortController();
    this.#controller = controller;
    if (this.#releasing === undefined) {
      const lost = firstLost(holds);
      if (lost !== undefined) return (this.#controller = abortedBy(lost)).signal;
      for (const hold of holds) hold.addLossListener(controller);
    }
    // The signal must not refer to this lease. The holds refer to the signal, so such a reference would keep
    // this lease alive even if the program no longer uses it.
    return heldSignal(
      controller.signal,
      () => holds.every((hold) => hold.hasLossListener(controller)) && checkHeld(holds),
    );
  }

  /**
   * Throws a LeaseLostError unless the lease is held now. Reads the clock, so the result is right even after
   * the event loop was blocked.
   */
  assertHeld(): void {
    if (this.held) return;
    const hold = firstLost(this.#holds) ?? this.#holds[0];
    const reason = hold?.lostReason ?? 'it was released';
    throw hold?.lostError(reason) ?? new LeaseLostError('', 0n, reason);
  }

  /**
   * Extends the lease to `ttl` milliseconds from now. The default of `ttl` is the lease's own TTL. Resolves
   * to false if the lease was released or lost. If the lease was lost, its signal is also aborted. Rejects
   * with a LeaseStoreError if the store fails; the lease is then still held until its deadline.
   */
  async renew(ttl: number = longestTtl(this.#holds)): Promise<boolean> {
    checkTtl(ttl);
    return this.#releasing === undefined && renewAll(this.#holds, ttl);
  }

  /**
   * Renews the lease, and replaces its `info` text, which the store keeps with the lease and `inspect`
   * returns. The new text has at most 1024 bytes in UTF-8; an empty text removes the old text. Resolves and
   * rejects as {@link renew} does. Leases that share a key also share its text. A store that does not support
   * `info` ignores the text. Rejects with a LockError (ERR_LEASE_SHARED) if the {@link mode} is shared.
   */
  async setInfo(info: string): Promise<boolean> {
    checkInfo(info);
    if (this.mode === 'shared') throw sharedInfo(this.keys);
    return this.#releasing === undefined && renewAll(this.#holds, longestTtl(this.#holds), info);
  }

  /**
   * Releases the lease. Resolves to true if this call freed all of its keys. A shared lease counts as freed
   * even if other leases still hold its key. If the `minHold` of the lease has not passed, the store keeps
   * the keys taken for the rest of that time, and the result is also true. Idempotent. Never frees another
   * holder's lease, and does not reject if the lease was lost. Rejects with a LeaseStoreError if the store
   * fails; the call can then be repeated. If it is not repeated, the lease ends when its TTL expires, because
   * a released lease is no longer renewed.
   */
  release(): Promise<boolean> {
    const before = this.#releasing;
    if (before === RELEASING) return before.then(() => this.#releasing !== RELEASING && this.release());
    if (before !== undefined) return (this.#releasing = freeAgain(before, this.#toFree));
    this.#releasing = RELEASING;
    const holds = this.#holds;
    // If the lease has already expired, `checkHeld` aborts its signal. That must happen before the listener
    // of the signal is removed.
    const isObserved = this.#controller !== undefined || holds.some(({ users }) => users > 1);
    try {
      if (isObserved) checkHeld(holds);
    } catch (error) {
      // The manager's `clock` has thrown. Nothing was released, and the call can be repeated.
      this.#releasing = undefined;
      return Promise.reject(error);
    }
    for (const hold of holds) {
      if (this.#controller !== undefined) hold.removeLossListener(this.#controller);
      if (this.#others !== undefined) hold.removeLossListener(this.#others);
      hold.drop(this, this.#wasUsed);
    }
    this.#toFree = holds.filter((hold) => hold.leave()).reverse();
    this.#releasing = freeAll(this.#toFree, this.#toFree.length === holds.length);
    const lost = firstLost(holds);
    if (lost !== undefined) this.#controller ??= abortedBy(lost);
    return this.#releasing;
  }

  /** Releases the lease. Does not reject if the store fails: the lease then ends when its TTL expires. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /**
   * The text that `console.log` shows. `remaining`: milliseconds until the local deadline; 0 if the lease is
   * not held.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { held, keys, tokens } = this;
    const named = keys.length === 1 ? { key: keys[0], token: tokens.get(keys[0]!) } : { keys, tokens };
    const left = Math.min(...this.#holds.map(({ remaining }) => Math.round(remaining)));
    return `Lease ${inspect({ ...named, held, remaining: held ? left : 0 }, options)}`;
  }

  static {
    createLease = (holds) => new Lease(holds);
    giveBackLease = (lease) => {
      lease.#wasUsed = false;
      for (const hold of lease.#holds) hold.markGivenBack();
      return lease.release();
    };
  }
}

function checkHeld(holds: readonly Hold[]): boolean {
  return holds.every((hold) => hold.checkHeld());
}

/** Returns the hold that was lost first, and so ended the lease. Undefined if no hold is lost. */
function firstLost(holds: readonly Hold[]): Hold | undefined {
  let other: Hold | undefined;
  for (const hold of holds) {
    if (hold.lostReason === undefined) continue;
    if (hold.lostReason !== OTHER_LOST) return hold;
    other ??= hold;
  }
  return other;
}

/**
 * Creates the listener that ends all other holds of a lease when one hold is lost, except for holds that
 * other leases share. The ended holds are no longer renewed. But their keys stay taken until the lease is
 * released or its TTL expires, because the holder may still be working.
 */
function othersOf(holds: readonly Hold[]): LossListener {
  const others: LossListener = {
    abort(error) {
      for (const hold of holds) if (hold.users <= 1) hold.lose(OTHER_LOST, error);
    },
  };
  for (const hold of holds) hold.addLossListener(others);
  return others;
}

function singleHold(property: 'key' | 'token', holds: readonly Hold[]): Hold {
  if (holds.length === 1) return holds[0]!;
  throw noSingleKey(
    property,
    holds.map(({ key }) => key),
  );
}

function abortedBy(lost: Hold): AbortController {
  const controller = new AbortController();
  controller.abort(lost.lostError(lost.lostReason!));
  return controller;
}

/**
 * The longest TTL of these holds. The TTLs can differ if other leases share some of the holds. If there are
 * no holds, the result does not matter.
 */
function longestTtl(holds: readonly Hold[]): number {
  let longest = 1;
  for (const { terms } of holds) longest = Math.max(longest, terms.ttl);
  return longest;
}

function renewAll(holds: readonly Hold[], ttl: number, info?: string): Promise<boolean> {
  return Promise.allSettled(holds.map((hold) => hold.heartbeat.renew(hold, ttl, info))).then(everyTrue);
}

/**
 * Frees the holds in the list. Holds that could not be freed stay in the list. `isWhole`: whether the list
 * contains all holds of the lease. The result is true if `isWhole` is true and all holds were freed.
 */
async function freeAll(holds: Hold[], isWhole = true): Promise<boolean> {
  if (holds.length === 1 && isWhole) return holds[0]!.release();
  const results = await Promise.allSettled(holds.map((hold) => hold.release()));
  const failed = holds.filter((_, i) => results[i]!.status === 'rejected');
  holds.splice(0, holds.length, ...failed);
  return everyTrue(results) && isWhole;
}

/** Whether all results are true. Throws the first error, if there is one. */
function everyTrue(results: readonly PromiseSettledResult<boolean>[]): boolean {
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return results.every((result) => result.status === 'fulfilled' && result.value);
}

function freeAgain(before: Promise<boolean>, holds: Hold[]): Promise<boolean> {
  return before.then(
    () => false,
    () => holds.every((hold) => hold.users === 0) && freeAll(holds),
  );
}

/**
 * Makes the signal call `check` each time its state is read. A timer aborts the signal when the lease
 * expires, but timers are late after the event loop was blocked. `check` reads the clock, and aborts the
 * signal if the lease has expired. So code that reads the signal right after a block sees the current state.
 */
export function heldSignal(signal: AbortSignal, check: () => boolean): AbortSignal {
  const inherited = (name: 'aborted' | 'reason'): (() => unknown) => {
    const property = Object.getOwnPropertyDescriptor(AbortSignal.prototype, name);
    return (): unknown => {
      check();
      return property?.get?.call(signal) as unknown;
    };
  };
  return Object.defineProperties(signal, {
    aborted: { get: inherited('aborted') },
    reason: { get: inherited('reason') },
    throwIfAborted: {
      value: () => {
        if (signal.aborted) throw signal.reason;
      },
    },
  });
}
