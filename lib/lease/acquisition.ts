import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { queueMicrotask } from '../common/host.js';
import { addCount, COUNT, addWait, type Count } from '../engine/contract/counts.js';
import { isManagerClosed, isPermanent, LeaseStoreError, leaseTimeout, messageOf } from './contract/errors.js';
import { ProfiledCall } from './contention.js';
import type { LeaseTerms, Wait } from './contract/options.js';
import type { Hold } from './hold.js';
import { createLease, type Lease } from './lease.js';
import type { Due } from './schedule.js';
import type { Requester } from './store-requests.js';
import type { LeaseSource } from './lease-source.js';

/**
 * While an acquisition of several keys holds none of them, it moves between the queues of its keys. If each
 * key is in high demand, all of them may never be free at the same time. So after this many moves, the
 * acquisition acquires one key after the other, in the order that all acquisitions share. It then keeps the
 * keys that it has while it waits for the other keys.
 */
const ROUNDS = 3;
/** If a timer is late by this many milliseconds or more, the event loop was blocked. */
const BLOCKED = 5;
/** The maximum number of readers that an acquisition gives back after failed attempts. */
const MOST_UNSURE = 10;
/** The minimum number of milliseconds between two requests that put off readers. */
const PUT_OFF_EVERY = 500;
/**
 * The shortest silence of the store, in milliseconds, that a timeout error mentions. If the store has never
 * answered, the error mentions any silence.
 */
const SILENCE = 100;

/**
 * The result of an attempt that acquired nothing, because another owner holds a key, or because another
 * acquisition goes first.
 */
export interface Refusal {
  /** The key that was refused. */
  readonly refused: string;
}

/** The result of an attempt: the holds that were granted, or the refusal. */
export type Answer = readonly Hold[] | Refusal;

/** A summary of the store's answers to attempts. Times are in milliseconds of real time. */
export interface Answers {
  /** The error of the last completed attempt; undefined if that attempt did not fail. */
  readonly failure: unknown;
  /** The time when the store last granted or refused an attempt; undefined if it has done neither. */
  readonly answeredAt: number | undefined;
  /**
   * When the first attempt since the store's last answer was sent; undefined if no attempt has been sent
   * since that answer.
   */
  readonly silentSince: number | undefined;
}

/**
 * An acquisition of one or more keys. It has three states:
 *
 *   together     The acquisition waits in the queue of its first key. After a refusal, it waits in the queue
 *                of the refused key. Each attempt acquires all keys or none. So while another owner holds one
 *                of the keys for a long time, the other keys stay free for other acquisitions.
 *   one by one   After `ROUNDS` moves to other queues, the acquisition waits for one key after the other.
 *                Each attempt requests only the key of the current queue. The acquisition keeps the keys that
 *                it already has.
 *   settled      The acquisition was granted, failed, timed out or was aborted. Grants that arrive later are
 *                given back.
 *
 * An acquisition that keeps a key waits only for later keys in the common order, so acquisitions cannot wait
 * for each other in a cycle. An acquisition gets its turn in each queue, so it does not starve. It waits in
 * one queue at a time, and moves to another queue only after its attempt has ended.
 */
export class Acquisition implements Due, Abortable {
  readonly promise: Promise<Lease | undefined>;
  deadline = Infinity;
  place = -1;
  /**
   * The place of this acquisition in the order of arrival, set when it joins a queue. An acquisition with a
   * lower number joined its queue earlier.
   */
  arrival = Infinity;
  /** The slot that was granted, if its key has a limit. */
  slot: number | undefined;
  /** The time when the timeout expires, in milliseconds of real time. */
  readonly endsAt: number;
  readonly #grants: LeaseSource;
  readonly #since: number;
  /** Whether this acquisition counts as waiting, because it could not be granted at once. */
  #isWaiting = false;
  /** Set if the call may wait while a profile of contention is running. */
  #profiled: ProfiledCall | undefined;
  readonly #keys: readonly string[];
  readonly #terms: LeaseTerms;
  readonly #wait: Wait;
  /**
   * The owner of the attempts. If an answer with a grant is lost, the next attempt has the same owner, so the
   * store grants the key again. In shared mode, each attempt has another owner: a new reader.
   */
  #requester: Requester;
  /**
   * The holds that this acquisition already has. In the state "one by one", they are the holds of its first
   * keys.
   */
  readonly #taken: Hold[] = [];
  /** The key of the queue in which this acquisition waits; undefined if it does not wait. */
  #at: string | undefined;
  #round = 0;
  #settled = false;
  #asking = false;
  /** Whether {@link run} has extended the timeout. */
  #isExtended = false;
  /** The key that was refused last. `#refusedAt`: the time of that refusal, in milliseconds of real time. */
  #refused: string | undefined;
  #refusedAt: number | undefined;
  /**
   * In shared mode: earlier requesters to which the store may have granted a key, the last `MOST_UNSURE` of
   * them. A reader that is forgotten leaves its group only when the group's lease expires.
   */
  #unsure: Requester[] = [];
  /** The time when this acquisition last put off readers, in milliseconds of real time. */
  #putOffAt = -Infinity;
  #failure: unknown;
  #resolve!: (lease: Lease | undefined) => void;
  #reject!: (reason: unknown) => void;

  constructor(grants: LeaseSource, keys: readonly string[], terms: LeaseTerms, wait: Wait) {
    this.#grants = grants;
    this.#keys = keys;
    this.#terms = terms;
    this.#wait = wait;
    const { timeout, signal } = wait;
    const now = grants.waiting.now();
    this.#since = now;
    this.endsAt = now + timeout;
    this.#requester = grants.newRequester(now, terms.mode);
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (signal) awaitAbort(signal, this);
  }

  /**
   * Waits in queues until the keys are granted. With a timeout of 0, makes a single attempt. Rejects with a
   * LockTimeoutError, with the signal's reason, or with the store's permanent error.
   */
  wait(): Promise<Lease> {
    if (this.#wait.timeout === 0) return this.#onceOrTimeout();
    const { waiting, contention } = this.#grants;
    if (contention.isOn) this.#profiled = new ProfiledCall(contention, this.#terms.mode, this.#since);
    waiting.set(this, this.endsAt);
    this.#join(this.#keys[0]!, false);
    return this.promise as Promise<Lease>;
  }

  /**
   * Makes a single attempt, which does not wait behind other acquisitions. Undefined if another owner holds
   * one of the keys. Rejects if the store fails. `refused`: the counter to increment if another owner holds
   * one of the keys.
   */
  once(refused: Count = COUNT.refused): Promise<Lease | undefined> {
    this.attempt().then(
      () => {
        if (!this.#settle()) return;
        addCount(this.#grants.counts, refused);
        this.#resolve(undefined);
      },
      (error: unknown) => this.fail(error),
    );
    return this.promise;
  }

  async #onceOrTimeout(): Promise<Lease> {
    try {
      const lease = await this.once(COUNT.timeouts);
      if (lease) return lease;
    } catch (error) {
      if (this.#wait.signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
    }
    throw this.timeoutError();
  }

  get isShared(): boolean {
    return this.#terms.mode === 'shared';
  }

  /** See {@link LeaseTerms.limit}. */
  get limit(): number {
    return this.#terms.limit;
  }

  /**
   * Called by the schedule when the timeout expires. If the event loop was blocked, an answer may have
   * arrived but not been read yet, so the timeout is extended once.
   */
  run(now: number): void {
    const { waiting } = this.#grants;
    const late = now - this.endsAt;
    if (this.#settled) return;
    if (late < 0) {
      waiting.set(this, this.endsAt);
    } else if (late >= BLOCKED && this.#asking && !this.#isExtended) {
      // The timeout is extended by the length of the block, at most by the timeout itself.
      this.#isExtended = true;
      waiting.set(this, waiting.now() + Math.min(late, this.#wait.timeout));
    } else {
      this.fail(this.timeoutError(), COUNT.timeouts);
    }
  }

  /** Called when the signal aborts. */
  abort(reason: unknown): void {
    this.fail(reason, COUNT.aborts);
  }

  /** `count`: the counter to increment; undefined for none. */
  fail(reason: unknown, count?: Count): void {
    if (!this.#settle()) return;
    if (count !== undefined) addCount(this.#grants.counts, count);
    this.#profiled?.end(outcomeOf(reason, count), (key) => this.#grants.holdersOf(key, this.limit));
    this.#reject(reason);
  }

  /** The error for an acquisition that was not granted in time. */
  timeoutError(): Error {
    const own = { failure: this.#failure, answeredAt: this.#refusedAt, silentSince: undefined };
    const answers =
      this.#at === undefined ? own : (this.#grants.lines.answersFor(this.#at, this.limit) ?? own);
    const { failure } = answers;
    const reason = failure === undefined ? this.#reason(answers) : messageOf(failure);
    return leaseTimeout(this.#keys, this.#wait.timeout, reason, failure ?? this.#failure);
  }

  /**
   * Returns the reason for a timeout that no error of the store explains: the key is held, or the store has
   * not answered. The text claims only what is known.
   */
  #reason({ answeredAt = -Infinity, silentSince }: Answers): string {
    const now = this.#grants.waiting.now();
    const key = this.#refused ?? this.#at ?? this.#keys[0]!;
    const held = this.#grants.whyRefused(key, this.#terms, this.#keys.length > 1);
    const last = Math.max(answeredAt, this.#refusedAt ?? -Infinity);
    if (silentSince === undefined) return held;
    const silence = Math.floor(now - silentSince);
    const silent = `has not answered ${this.limit > 1 ? 'for all slots ' : ''}within ${silence} ms`;
    if (last === -Infinity) return `the store ${silent}`;
    if (silence < SILENCE) return held;
    return `the store said ${Math.floor(now - last)} ms ago that ${held}, and ${silent} since`;
  }

  /**
   * The keys of the next attempt, starting with the key of the current queue. If a store acquires one key at
   * a time and refuses this first key, no grant has to be rolled back.
   */
  get #wanted(): readonly string[] {
    const at = this.#at;
    if (at === undefined || this.#keys.length === 1) return this.#keys;
    return this.#round >= ROUNDS ? [at] : [at, ...this.#keys.filter((key) => key !== at)];
  }

  /**
   * Makes an attempt. If this acquisition waits in a queue, call only in its turn. True if the attempt
   * was granted. `slots`: the slots to try, in this order, if the key has a limit; default: all. Rejects if the
   * store fails.
   */
  async attempt(slots?: readonly number[]): Promise<boolean> {
    const grants = this.#grants;
    const at = this.#at;
    const wanted = this.#wanted;
    const isBehind = (key: string): boolean => key !== at && grants.isAwaited(key, this.#terms.mode);
    const goesFirst = at === undefined ? undefined : wanted.find(isBehind);
    if (goesFirst !== undefined) return this.#answered({ refused: goesFirst });
    this.#asking = true;
    let answer: Answer;
    try {
      answer = await grants.tryAll(wanted, this.#requester, this.#terms, slots);
    } catch (error) {
      return this.#failed(error);
    }
    return this.#answered(answer);
  }

  #answered(answer: Answer): boolean {
    this.#asking = false;
    // An earlier reader of this acquisition may hold up a writer that this one has to wait for.
    this.#giveBackUnsure();
    const granted = !('refused' in answer);
    if (granted) this.#wasGranted(answer);
    else this.#wasRefused(answer);
    this.#ended();
    return granted;
  }

  #failed(error: unknown): never {
    this.#asking = false;
    this.#failure = error;
    if (isPermanent(error)) this.fail(error);
    else this.#countWaiting();
    this.#ended();
    throw error;
  }

  #ended(): void {
    if (this.#settled) this.#giveBack();
    // The timeout was extended only to wait for this answer, which has not granted all keys.
    else if (this.#isExtended) this.fail(this.timeoutError(), COUNT.timeouts);
    // The store may still remove a reader whose attempt has failed. So in shared mode, each attempt uses a new
    // reader, also after a refusal.
    else if (this.isShared || this.#requester.isSpent) this.#replaceRequester();
  }

  #wasRefused({ refused: key }: Refusal): void {
    const now = this.#grants.waiting.now();
    const mayPutOff = !this.#settled && this.#at !== undefined && !this.isShared && this.limit === 1;
    if (mayPutOff) this.#putOffReaders(key, now);
    this.#refused = key;
    this.#refusedAt = now;
    this.#countWaiting();
    if (this.#settled || this.#at === undefined || this.#at === key) return;
    const inOrder = ++this.#round >= ROUNDS;
    this.#move(inOrder ? this.#keys[0]! : key, !inOrder);
  }

  /**
   * Puts off new readers of the key from the second refusal of the key on. After the first refusal, the
   * holder may be about to release the key.
   */
  #putOffReaders(key: string, now: number): void {
    if (this.#refused !== key || now - this.#putOffAt < PUT_OFF_EVERY) return;
    this.#putOffAt = now;
    this.#grants.putOffReaders(key);
  }

  #wasGranted(holds: readonly Hold[]): void {
    const taken = this.#taken;
    taken.push(...holds);
    if (this.#settled) return;
    if (taken.length < this.#keys.length) {
      this.#move(this.#keys[taken.length]!, false);
    } else if (this.#round > 0 && taken.some((hold) => !hold.checkHeld())) {
      // Some holds were lost while the acquisition waited for its other keys.
      this.#giveBack();
      this.#replaceRequester();
      this.#move(this.#keys[0]!, false);
    } else {
      if (taken.length > 1) taken.sort(byKey);
      const lease = createLease(taken.splice(0));
      if (this.limit > 1) this.slot = lease.slot;
      if (!this.#settle(this.limit > 1)) return;
      this.#profiled?.end('granted');
      this.#resolve(lease);
    }
  }

  #join(key: string, wasRefused: boolean): void {
    this.#at = key;
    if (this.#grants.lines.first(key) !== undefined) this.#countWaiting();
    this.#grants.lines.join(key, this, wasRefused);
  }

  /** Call when the acquisition must wait: behind others in its queue, or after a refusal or a failure. */
  #countWaiting(): void {
    if (this.#isWaiting || this.#settled || this.#at === undefined) return;
    this.#isWaiting = true;
    // Before it is counted: once other threads see that it waits, their releases are part of its profile.
    this.#profiled?.begin(this.#refused ?? this.#at);
    const { counts } = this.#grants;
    addCount(counts, COUNT.contended);
    addCount(counts, COUNT.waiting);
  }

  #countWaited(): void {
    if (!this.#isWaiting) return;
    const { counts, waiting } = this.#grants;
    addCount(counts, COUNT.waiting, -1);
    addWait(counts, waiting.now() - this.#since);
  }

  /**
   * Moves this acquisition to the queue of another key. It joins that queue in a microtask, because the old
   * queue must first be notified that the attempt has ended.
   */
  #move(key: string, wasRefused: boolean): void {
    const before = this.#at!;
    if (key === before) return;
    this.#at = key;
    this.#grants.lines.leave(before, this, !this.#taken.some((hold) => hold.key === before));
    queueMicrotask(() => {
      if (!this.#settled) this.#join(key, wasRefused);
    });
  }

  /**
   * Continues with a new owner. Call only while this acquisition has no holds, or only shared holds, which do
   * not depend on the requester. Keys that the old owner may still hold are given back; in shared mode only
   * when the store answers again, or when this acquisition ends, so that a failing store does not get more
   * requests.
   */
  #replaceRequester(): void {
    if (!this.isShared) this.#grants.giveBack(this.#requester, this.#terms);
    else if (this.#requester.unsure !== undefined) {
      this.#unsure = [...this.#unsure, this.#requester].slice(-MOST_UNSURE);
    }
    this.#requester = this.#grants.newRequester(this.#since, this.#terms.mode);
  }

  #giveBackUnsure(): void {
    const unsure = this.#unsure;
    if (unsure.length > 0) this.#unsure = [];
    for (const requester of unsure) this.#grants.giveBack(requester, this.#terms);
  }

  /** Ends the acquisition. False if it had already ended. `mayBeFree`: see `WaitingLines.leave`. */
  #settle(mayBeFree = false): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#countWaited();
    const { waiting, lines } = this.#grants;
    if (this.#at !== undefined) {
      waiting.clear(this);
      lines.leave(this.#at, this, mayBeFree);
    }
    if (this.#wait.signal) forgetAbort(this.#wait.signal, this);
    if (this.#asking) this.#requester.isCancelled = true;
    else this.#giveBack();
    return true;
  }

  /**
   * Gives back all holds of this acquisition, and the keys that the store may have granted in an answer that
   * was lost.
   */
  #giveBack(): void {
    this.#giveBackUnsure();
    this.#grants.giveBack(this.#requester, this.#terms, this.#taken.splice(0));
  }
}

/** The outcome of a wait that ended without a grant. The parameters are the same as for {@link Acquisition.fail}. */
function outcomeOf(reason: unknown, count: Count | undefined): 'timeout' | 'aborted' | 'failed' {
  if (count === COUNT.timeouts) return 'timeout';
  return count === COUNT.aborts || isManagerClosed(reason) ? 'aborted' : 'failed';
}

/** Compares holds by key, in the order that all acquisitions share: by UTF-16 code units. */
function byKey(one: Hold, other: Hold): number {
  return one.key < other.key ? -1 : 1;
}
