import { inspect, type InspectOptions } from 'node:util';
import { threadBound } from '../common/thread-bound.js';
import type { HostSignal } from '../common/types.js';
import { LeaseLostError, noSingleKey } from './contract/errors.js';
import { checkInfo, checkTtl, type FencingToken } from './contract/lease-store.js';
import { type Hold, type LossListener, OTHER_LOST } from './hold.js';

const THREAD_BOUND = threadBound('Lease', 'create a LeaseManager there, over the same store, and acquire');

/**
 * For managers only: creates a lease of these holds. They must be in the order in which acquisitions take
 * keys.
 */
export let createLease: (holds: readonly Hold[]) => Lease;
/**
 * For managers only: releases a lease that its caller did not get to use, without regard to its `minHold`.
 */
export let giveBackLease: (lease: Lease) => Promise<boolean>;

/**
 * A lease holds a key in a store for a limited time, and can be renewed. It belongs to the thread that
 * acquired it.
 *
 * A lease can have several keys. It is held while all of its keys are held, and has one deadline. All its
 * keys are renewed and released together. Each key has a separate token: see {@link tokens}.
 *
 * A lease can expire at any time. Between a check of {@link held} and the next statement, the process can be
 * paused for longer than the lease lasts. So pass {@link token} along with every write, and let the resource
 * refuse tokens that are lower than the highest it has seen (see `FencingGate`).
 */
export class Lease implements AsyncDisposable {
  /**
   * An enumerable property that cannot be cloned, so that structured clone refuses the whole object.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #holds: readonly Hold[];
  #controller: AbortController | undefined = undefined;
  /** The result of the last call of {@link release}; undefined before the first call. */
  #releasing: Promise<boolean> | undefined = undefined;
  /** Ends the other holds if one of several holds is lost. Undefined for a single hold. */
  readonly #others: LossListener | undefined;
  /** After a release: the holds that have no other user and are not freed yet. */
  #toFree: Hold[] | undefined = undefined;

  private constructor(holds: readonly Hold[]) {
    this.#holds = holds;
    this.#others = holds.length > 1 ? othersOf(holds) : undefined;
    for (const hold of holds) hold.keep(this);
  }

  /** The key of the lease. Throws a LockError (ERR_LEASE_KEYS) if the lease has several keys, or none. */
  get key(): string {
    return singleHold('key', this.#holds).key;
  }

  /** The keys of the lease, each once, in the order in which they are taken: by their UTF-16 code units. */
  get keys(): readonly string[] {
    return Object.freeze(this.#holds.map(({ key }) => key));
  }

  /**
   * The slot of the lease, if its key has a limit: a number from 0 to limit - 1. It stays the same while the
   * lease is held, and no other holder has it during that time. 0 without a limit.
   */
  get slot(): number {
    return this.#holds[0]?.terms.slot ?? 0;
  }

  /**
   * The fencing token of the lease. It is higher than the tokens of all earlier holders of the key, or, with
   * a limit, of the same {@link slot}. Renewals do not change it. Throws a LockError (ERR_LEASE_KEYS) if the
   * lease has several keys, or none: tokens of different keys cannot be compared.
   */
  get token(): FencingToken {
    return singleHold('token', this.#holds).token;
  }

  /** The {@link token} of each key, in the order of {@link keys}. */
  get tokens(): ReadonlyMap<string, FencingToken> {
    return new Map(this.#holds.map(({ key, token }) => [key, token]));
  }

  /** The name of the lease's owner in the store. Empty if the lease has no keys. */
  get holder(): string {
    return this.#holds[0]?.owner ?? '';
  }

  /**
   * The local deadline of the lease, in milliseconds on the manager's clock. It is never later than the
   * store's deadline. With several keys, it is the earliest deadline; without keys, Infinity.
   */
  get expiresAt(): number {
    return this.#holds.reduce((earliest, { expiresAt }) => Math.min(earliest, expiresAt), Infinity);
  }

  /**
   * The number of leases that currently share the hold of the key, including this lease until it is released.
   * Only managers with `reentrant` share holds. With several keys, the highest number for any of them.
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
   * deadline passes while a renewal has no answer. A release does not abort the signal. Reading `aborted`
   * reads the clock, as {@link held} does.
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
    // The signal must not refer to this lease. The holds refer to the signal, so they would keep a lease
    // alive that the program has forgotten.
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
   * Extends the lease to `ttl` milliseconds from now. Default: its own TTL. False if the lease was released
   * or lost. If it was lost, its signal is also aborted. Rejects with a LeaseStoreError if the store fails;
   * the lease is then still held until its deadline.
   */
  async renew(ttl: number = longestTtl(this.#holds)): Promise<boolean> {
    checkTtl(ttl);
    return this.#releasing === undefined && renewAll(this.#holds, ttl);
  }

  /**
   * Renews the lease, and replaces the text that the store keeps with it and that `inspect` shows. At most
   * 1024 bytes in UTF-8; an empty text removes it. Resolves and rejects as {@link renew} does. Leases that
   * share a key share its info. A store that keeps no infos ignores the text.
   */
  async setInfo(info: string): Promise<boolean> {
    checkInfo(info);
    return this.#releasing === undefined && renewAll(this.#holds, longestTtl(this.#holds), info);
  }

  /**
   * Releases the lease. True if this call freed all of its keys. If its `minHold` has not passed, the store
   * keeps the key taken for the rest of that time, and the result is also true. Idempotent. Never frees
   * another holder's lease, and does not reject if the lease was lost. Rejects with a LeaseStoreError if the
   * store fails. The call can then be repeated. Even without that, the lease ends with its TTL, because it is
   * no longer renewed.
   */
  release(): Promise<boolean> {
    const before = this.#releasing;
    const holds = this.#holds;
    if (before !== undefined) return (this.#releasing = freeAgain(before, this.#toFree ?? [...holds]));
    // If the lease has already expired, this aborts its signal before the signal's listener is removed.
    const controller = this.#controller;
    if (controller !== undefined) {
      checkHeld(holds);
      for (const hold of holds) hold.removeLossListener(controller);
    }
    if (this.#others !== undefined) for (const hold of holds) hold.removeLossListener(this.#others);
    for (const hold of holds) hold.drop(this);
    const last = holds.filter((hold) => hold.leave()).reverse();
    this.#toFree = last;
    const isWhole = last.length === holds.length;
    if (!isWhole) checkHeld(holds);
    this.#releasing = freeAll(last, isWhole);
    const lost = firstLost(holds);
    if (lost !== undefined) this.#controller ??= abortedBy(lost);
    return this.#releasing;
  }

  /** Releases the lease. Does not reject if the store fails: the lease then ends with its TTL. */
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
      for (const hold of lease.#holds) hold.skipMinHold();
      return lease.release();
    };
  }
}

function checkHeld(holds: readonly Hold[]): boolean {
  return holds.every((hold) => hold.checkHeld());
}

/** The hold whose loss ended the lease. Undefined if no hold is lost. */
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
 * Creates the listener that ends all holds of a lease when one of them is lost, except for holds that other
 * leases share. The ended holds are not renewed any more. But their keys stay taken until the lease is
 * released or they expire, because the holder may still be working.
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
 * The longest TTL of these holds. Holds that are shared with other leases may have different TTLs. Without
 * holds, the result does not matter.
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
 * Frees these holds. Those that could not be freed stay in the list. True if all were freed and `isWhole`:
 * the list contains all holds of the lease.
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
    () => holds.every((hold) => hold.unused) && freeAll(holds),
  );
}

/**
 * Makes the signal call `check` each time its state is read. The signal is aborted by a timer, which is late
 * if the event loop is blocked. Code that reads the signal right after a block must see the current state.
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
