import { inspect, type InspectOptions } from 'node:util';
import { threadBound } from '../common/thread-bound.js';
import type { HostSignal } from '../common/types.js';
import { LeaseLostError, noSingleKey } from './contract/errors.js';
import { checkInfo, checkTtl, type FencingToken } from './contract/lease-store.js';
import { type Hold, type LossListener, OTHER_LOST } from './hold.js';

const THREAD_BOUND = threadBound('Lease', 'create a LeaseManager there, over the same store, and acquire');

/** For managers only: a lease of these holds, in the order in which their keys are taken. */
export let createLease: (holds: readonly Hold[]) => Lease;
/** For managers only: releases a lease that its caller did not use, whatever its `minHold`. */
export let giveBackLease: (lease: Lease) => Promise<boolean>;

/**
 * A key that is held in a store for a limited time, and renewed on request. It belongs to the thread that acquired it.
 *
 * It may have several keys: then it is held while all of them are, has one deadline, and is renewed and released as a
 * whole. Each key has a separate token: see {@link tokens}.
 *
 * A lease can expire at any time: between reading {@link held} and the next step, the process can be paused for longer
 * than the lease lasts. So pass {@link token} along with every write, and have the resource refuse tokens lower than
 * the highest that it has seen (see `FencingGate`).
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
  /** The result of the last call of {@link release}. */
  #releasing: Promise<boolean> | undefined = undefined;
  /** Ends the other holds when one of several is lost. */
  readonly #others: LossListener | undefined;
  /** The holds of which this lease was the last user when it was released, and which are not freed yet. */
  #toFree: Hold[] | undefined = undefined;

  private constructor(holds: readonly Hold[]) {
    this.#holds = holds;
    this.#others = holds.length > 1 ? othersOf(holds) : undefined;
    for (const hold of holds) hold.keep(this);
  }

  /** The key that is held. Throws a LockError (ERR_LEASE_KEYS) if the lease has several keys, or none. */
  get key(): string {
    return singleHold('key', this.#holds).key;
  }

  /** The keys that are held, each once, in the order in which they are taken: by their UTF-16 code units. */
  get keys(): readonly string[] {
    return Object.freeze(this.#holds.map(({ key }) => key));
  }

  /**
   * The number of this holder among the holders of a key with a limit, 0 … limit - 1. It stays the same while the lease is
   * held, and no other holder has it during that time. 0 without a limit.
   */
  get slot(): number {
    return this.#holds[0]?.terms.slot ?? 0;
  }

  /**
   * Greater than the token of every earlier holder of the key; with a limit, of its {@link slot}. Stays the same when the lease is renewed. Throws a
   * LockError (ERR_LEASE_KEYS) if the lease has several keys, or none: tokens of different keys cannot be compared.
   */
  get token(): FencingToken {
    return singleHold('token', this.#holds).token;
  }

  /** The {@link token} of each key, in the order of {@link keys}. */
  get tokens(): ReadonlyMap<string, FencingToken> {
    return new Map(this.#holds.map(({ key, token }) => [key, token]));
  }

  /** The owner that was passed to the store; '' without keys. */
  get holder(): string {
    return this.#holds[0]?.owner ?? '';
  }

  /**
   * On the manager's clock, in milliseconds. Local, and not later than the store's own expiry. With several keys, the
   * earliest; Infinity without keys.
   */
  get expiresAt(): number {
    return this.#holds.reduce((earliest, { expiresAt }) => Math.min(earliest, expiresAt), Infinity);
  }

  /**
   * How many leases of this manager use it now, where `reentrant` lets them share it; this one counts until it is
   * released. With several keys, the most that use one of them.
   */
  get users(): number {
    if (this.#holds.length === 0) return this.#releasing === undefined ? 1 : 0;
    return Math.max(...this.#holds.map(({ users }) => users));
  }

  /** Whether it is held now. Reads the clock, so it is right even after the event loop was blocked. */
  get held(): boolean {
    return this.#releasing === undefined && checkHeld(this.#holds);
  }

  /**
   * Aborts with LeaseLostError when the lease is lost or its local deadline passes, even while a renewal hangs. Not
   * on release. `aborted` reads the clock, as {@link held} does.
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
    // The signal must not refer to this lease: the holds have the signal, and would keep a forgotten lease alive.
    return heldSignal(
      controller.signal,
      () => holds.every((hold) => hold.hasLossListener(controller)) && checkHeld(holds),
    );
  }

  /** Throws LeaseLostError unless the local deadline is still ahead. Right even after the event loop was blocked. */
  assertHeld(): void {
    if (this.held) return;
    const hold = firstLost(this.#holds) ?? this.#holds[0];
    const reason = hold?.lostReason ?? 'it was released';
    throw hold?.lostError(reason) ?? new LeaseLostError('', 0n, reason);
  }

  /**
   * Extends it to `ttl` milliseconds from now; default: its own ttl. False if it is not held any more; the signal is then
   * aborted, too. Rejects with LeaseStoreError when the store fails; the lease is then held until its deadline.
   */
  async renew(ttl: number = longestTtl(this.#holds)): Promise<boolean> {
    checkTtl(ttl);
    return this.#releasing === undefined && renewAll(this.#holds, ttl);
  }

  /**
   * Replaces the text that the store keeps with the lease and `inspect` shows, and renews the lease by its own ttl. At most
   * 1024 bytes in UTF-8; '' for none. Resolves and rejects as {@link renew} does. Leases that share a key share its info. A
   * store that keeps no infos ignores it.
   */
  async setInfo(info: string): Promise<boolean> {
    checkInfo(info);
    return this.#releasing === undefined && renewAll(this.#holds, longestTtl(this.#holds), info);
  }

  /**
   * True if this call freed it, with all of its keys. Idempotent; never frees another holder's lease; never rejects because it was lost.
   * If its `minHold` has not expired, it leaves the rest of that time to the store, and also returns true. Rejects with
   * LeaseStoreError when the store fails. Then the lease is not renewed any more and ends with its TTL at the latest, and the
   * call can be repeated.
   */
  release(): Promise<boolean> {
    const before = this.#releasing;
    const holds = this.#holds;
    if (before !== undefined) return (this.#releasing = freeAgain(before, this.#toFree ?? [...holds]));
    // If it had already expired, its signal is aborted, also for those who read it later.
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

  /** Releases it. A failing store is not an error here: the lease ends with its TTL. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /**
   * What `console.log` shows. `remaining`: milliseconds until the local deadline; 0 if it is not held.
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

/** The hold that was lost first. */
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
 * If one of the holds is lost, the others are not renewed any more, unless other leases share them. The store keeps them
 * until the holder, who may still be working, releases the lease, or until they expire.
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

/** Holds may have different TTLs, if other leases share them. 1 without keys, where it does not matter. */
function longestTtl(holds: readonly Hold[]): number {
  let longest = 1;
  for (const { terms } of holds) longest = Math.max(longest, terms.ttl);
  return longest;
}

function renewAll(holds: readonly Hold[], ttl: number, info?: string): Promise<boolean> {
  return Promise.allSettled(holds.map((hold) => hold.heartbeat.renew(hold, ttl, info))).then(everyTrue);
}

/** Leaves in the list what could not be freed. True if all were freed, and these are all holds of the lease. */
async function freeAll(holds: Hold[], isWhole = true): Promise<boolean> {
  if (holds.length === 1 && isWhole) return holds[0]!.release();
  const results = await Promise.allSettled(holds.map((hold) => hold.release()));
  const failed = holds.filter((_, i) => results[i]!.status === 'rejected');
  holds.splice(0, holds.length, ...failed);
  return everyTrue(results) && isWhole;
}

/** Throws the first error. */
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
 * Makes a signal call `check` before it answers. A timer sends its event, and a blocked event loop delays timers. Code
 * that reads the signal first after such a block must see the current state.
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
