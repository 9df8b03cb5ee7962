import type { HostSignal } from '../../common/types.js';
import type { FencingToken } from '../contract/lease-store.js';
import { checkInfo } from '../contract/info.js';
import { checkTtl } from '../contract/lease-store.js';
import { heldSignal } from './held-signal.js';
import type { Hold } from './hold.js';
import { discardHold, LeaseSet, type Part } from './lease-set.js';

/** For managers only. */
export let createLease: (hold: Hold | LeaseSet) => Lease;
/** For managers only: releases a lease that nobody got to use, whatever its `minHold`. */
export let discardLease: (lease: Lease) => Promise<boolean>;
/** For managers only: a lease of one key, as a part of a lease of several. */
export let partOf: (lease: Lease) => Part;

/**
 * A key that is held in a store for a limited time, and renewed on request. It belongs to the thread that acquired it.
 *
 * It may have several keys: then it is held while all of them are, has one deadline, and is renewed and released as a
 * whole. Each key has a token of its own: see {@link tokens}.
 *
 * A lease can expire at any time: between reading {@link held} and the next step, the process can be paused for longer
 * than the lease lasts. So pass {@link token} along with every write, and have the resource refuse tokens lower than
 * the highest that it has seen (see `FencingGate`).
 */
export class Lease implements AsyncDisposable {
  readonly #hold: Hold | LeaseSet;
  #controller: AbortController | undefined = undefined;
  /** The result of the last call of {@link release}. */
  #releasing: Promise<boolean> | undefined = undefined;

  private constructor(hold: Hold | LeaseSet) {
    this.#hold = hold;
    hold.join(this);
  }

  /** The key that is held. Throws a LockError (ERR_LEASE_KEYS) if the lease has several keys, or none. */
  get key(): string {
    return this.#hold.key;
  }

  /** The keys that are held, each once, in the order in which they are taken: by their UTF-16 code units. */
  get keys(): readonly string[] {
    const hold = this.#hold;
    return hold instanceof LeaseSet ? hold.keys : Object.freeze([hold.key]);
  }

  /**
   * Greater than the token of every earlier holder of the key. Stays the same when the lease is renewed. Throws a
   * LockError (ERR_LEASE_KEYS) if the lease has several keys, or none: tokens of different keys cannot be compared.
   */
  get token(): FencingToken {
    return this.#hold.token;
  }

  /** The {@link token} of each key, in the order of {@link keys}. */
  get tokens(): ReadonlyMap<string, FencingToken> {
    const hold = this.#hold;
    return hold instanceof LeaseSet ? hold.tokens : new Map([[hold.key, hold.token]]);
  }

  /** Who holds it, as the store knows it. */
  get holder(): string {
    return this.#hold.owner;
  }

  /**
   * On the manager's clock, in milliseconds. Local, and not later than the store's own expiry. Of several keys the
   * earliest; Infinity without keys.
   */
  get expiresAt(): number {
    return this.#hold.expiresAt;
  }

  /**
   * How many leases of this manager use it now, where `reentrant` lets them share it; this one counts until it is
   * released. Of several keys, the most that use one of them.
   */
  get users(): number {
    return this.#hold.users;
  }

  /** Whether it is held now. Reads the clock, so it is right even after the event loop was blocked. */
  get held(): boolean {
    return this.#releasing === undefined && this.#hold.look();
  }

  /**
   * Aborts with LeaseLostError when the lease is lost or its local deadline passes, even while a renewal hangs. Not
   * on release. `aborted` reads the clock, as {@link held} does.
   */
  get signal(): HostSignal {
    if (this.#controller) return this.#controller.signal;
    const controller = new AbortController();
    this.#controller = controller;
    if (this.#releasing === undefined) {
      const { lostReason } = this.#hold;
      if (lostReason !== undefined) return (this.#controller = abortedBy(this.#hold)).signal;
      this.#hold.abortWhenLost(controller);
    }
    // The signal must not refer to this lease: the hold has the signal, and would keep a forgotten lease alive.
    const hold = this.#hold instanceof LeaseSet ? this.#hold.bond : this.#hold;
    return heldSignal(controller.signal, () => hold.watchesFor(controller) && hold.look());
  }

  /** Throws LeaseLostError unless the local deadline is still ahead. Right even after the event loop was blocked. */
  assertHeld(): void {
    if (this.held) return;
    throw this.#hold.lostError(this.#hold.lostReason ?? 'it was released');
  }

  /**
   * Extends it to `ttl` milliseconds from now; default: its own ttl. False if it is not held any more; the signal is then
   * aborted, too. Rejects with LeaseStoreError when the store fails; the lease is then held until its deadline.
   */
  async renew(ttl: number = this.#hold.terms.ttl): Promise<boolean> {
    checkTtl(ttl);
    return this.#releasing === undefined && this.#hold.renew(ttl);
  }

  /**
   * Replaces its info, which others see by `inspect` of the store, and renews it. At most 1024 bytes in UTF-8; '' for
   * none. The result is that of {@link renew}, with the lease's own ttl. Leases that share it share its info. A store that
   * keeps no infos ignores it.
   */
  async setInfo(info: string): Promise<boolean> {
    checkInfo(info);
    return this.#releasing === undefined && this.#hold.renew(this.#hold.terms.ttl, info);
  }

  /**
   * True if this call freed it, with all of its keys. Idempotent; never frees another holder's lease; never rejects because it was lost.
   * Before the `minHold` of its terms is over, it leaves the rest of that time to the store, and is true, too. Rejects
   * with LeaseStoreError when the store fails. Then the lease is not renewed any more and ends with its TTL at
   * the latest, and the call can be repeated.
   */
  release(): Promise<boolean> {
    const hold = this.#hold;
    const before = this.#releasing;
    if (before !== undefined) return (this.#releasing = releaseAgain(hold, before));
    // If it had already expired, its signal is aborted, also for those who read it later.
    const controller = this.#controller;
    if (controller !== undefined) hold.look();
    const releasing = hold.leave(this, controller) ? hold.release() : leaveToOthers(hold);
    if (hold.lostReason !== undefined) this.#controller ??= abortedBy(hold);
    return (this.#releasing = releasing);
  }

  /** Releases it. A failing store is not an error here: the lease ends with its TTL. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  static {
    createLease = (hold) => new Lease(hold);
    discardLease = (lease) => {
      const hold = lease.#hold;
      if (hold instanceof LeaseSet) hold.discard();
      else discardHold(hold);
      return lease.release();
    };
    // A part of a lease is made for a hold.
    partOf = (lease) => ({ hold: lease.#hold as Hold, user: lease });
  }
}

// Functions, not private methods: V8 marks each object of a class that has private methods.

function abortedBy(hold: Hold | LeaseSet): AbortController {
  const controller = new AbortController();
  controller.abort(hold.lostError(hold.lostReason!));
  return controller;
}

function leaveToOthers(hold: Hold | LeaseSet): Promise<boolean> {
  hold.look();
  return Promise.resolve(false);
}

function releaseAgain(hold: Hold | LeaseSet, before: Promise<boolean>): Promise<boolean> {
  return before.then(
    () => false,
    () => (hold.unused ? hold.release() : false),
  );
}
