import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { queueMicrotask } from '../common/host.js';
import { isPermanent, LeaseStoreError, leaseTimeout, messageOf } from './contract/errors.js';
import type { LeaseTerms, Wait } from './contract/options.js';
import type { Hold } from './hold.js';
import { createLease, type Lease } from './lease.js';
import type { Due } from './schedule.js';
import type { Requester } from './store-requests.js';
import type { LeaseSource } from './lease-source.js';

/**
 * How often an acquisition goes to the line of another key while it holds nothing. A set of keys that many want one by
 * one may never be free at the same time. So after that it keeps what it has while it waits for the rest, in the order
 * that all share.
 */
const ROUNDS = 3;
/** Milliseconds: a timer is later than this only if the event loop was blocked. */
const BLOCKED = 5;
/** After a refusal, an error mentions an unanswered attempt only if the store has been silent for more milliseconds than this. */
const SILENCE = 100;

/** Nothing was taken: another owner has the key, or goes first. */
export interface Refusal {
  /** The key. */
  readonly refused: string;
}

/** The granted holds, which the requester uses, or the refusal. */
export type Answer = readonly Hold[] | Refusal;

/** A store's answers to attempts, with times on the real clock. */
export interface Answers {
  /** The error of the last answer; undefined if it did not fail. */
  readonly failure: unknown;
  /** When it last granted or refused; undefined if it never did. */
  readonly answeredAt: number | undefined;
  /** When the oldest attempt was sent that no answer has followed; undefined if none is under way. */
  readonly silentSince: number | undefined;
}

/**
 * An acquisition of one key or several. Its states:
 *
 *   together     It stands in the line of the key that was refused last, initially of its first key. It asks for all keys,
 *                and takes all or none. So it holds no key while another job holds one of the others for long.
 *   one by one   After ROUNDS changes of line, it asks only for the key in whose line it stands, and keeps the keys before.
 *   settled      It was granted, failed, timed out or was aborted. It gives back later grants.
 *
 * An acquisition that keeps a key waits only for later keys, so acquisitions cannot wait in a cycle. It gets its turn in each
 * line, so it does not starve. It waits for one key at a time, and changes lines only after its attempt has ended.
 */
export class Acquisition implements Due, Abortable {
  readonly promise: Promise<Lease | undefined>;
  deadline = Infinity;
  place = -1;
  /** Its number among those that wait, by arrival. Set when it joins a line. */
  arrival = Infinity;
  /** The slot that it was granted, if its key has a limit. */
  slot: number | undefined;
  /** When its timeout expires, on the real clock. */
  readonly endsAt: number;
  readonly #grants: LeaseSource;
  readonly #keys: readonly string[];
  readonly #terms: LeaseTerms;
  readonly #wait: Wait;
  /** All attempts have one owner. If the answer with a grant was lost, the next attempt is granted the same again. */
  #requester: Requester;
  /** The holds that it keeps while it waits for the rest. If it takes one key after the other, they are its first keys. */
  readonly #taken: Hold[] = [];
  /** The key in whose line it stands; undefined if it does not wait. */
  #at: string | undefined;
  #round = 0;
  #settled = false;
  #asking = false;
  #isPutOff = false;
  /** The key that it was refused last, and when, on the real clock. */
  #refused: string | undefined;
  #refusedAt: number | undefined;
  #failure: unknown;
  #resolve!: (lease: Lease | undefined) => void;
  #reject!: (reason: unknown) => void;

  constructor(grants: LeaseSource, keys: readonly string[], terms: LeaseTerms, wait: Wait) {
    this.#grants = grants;
    this.#keys = keys;
    this.#terms = terms;
    this.#wait = wait;
    const { timeout, signal } = wait;
    const now = grants.waiting.schedule.now();
    this.endsAt = now + timeout;
    this.#requester = grants.newRequester();
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (signal) awaitAbort(signal, this);
  }

  /** Waits in lines; with a timeout of 0 it asks once. Rejects with a LockTimeoutError, or with the signal's reason. */
  wait(): Promise<Lease> {
    if (this.#wait.timeout === 0) return this.#onceOrTimeout();
    const { waiting } = this.#grants;
    waiting.acquisitions.add(this);
    waiting.schedule.set(this, this.endsAt);
    this.#join(this.#keys[0]!, false);
    return this.promise as Promise<Lease>;
  }

  /** Asks once, before those that wait. Undefined if another owner has one of the keys. Rejects if the store fails. */
  once(): Promise<Lease | undefined> {
    this.#attempt(false).then(
      () => {
        if (this.#settle()) this.#resolve(undefined);
      },
      (error: unknown) => this.fail(error),
    );
    return this.promise;
  }

  async #onceOrTimeout(): Promise<Lease> {
    try {
      const lease = await this.once();
      if (lease) return lease;
    } catch (error) {
      if (this.#wait.signal?.aborted === true || !(error instanceof LeaseStoreError)) throw error;
    }
    throw this.timeoutError();
  }

  /** See {@link LeaseTerms.limit}. */
  get limit(): number {
    return this.#terms.limit;
  }

  /**
   * It is its turn: true if it was granted what it asked for. `slots`: which of a key with a limit it tries, in that order.
   * Rejects if the store fails.
   */
  attempt(slots: readonly number[]): Promise<boolean> {
    return this.#attempt(true, slots);
  }

  /** Called by the schedule: the timeout. If the event loop was blocked, the answer may have arrived. */
  run(now: number): void {
    const { schedule } = this.#grants.waiting;
    const late = now - this.endsAt;
    if (this.#settled) return;
    if (late < 0) {
      schedule.set(this, this.endsAt);
    } else if (late >= BLOCKED && this.#asking && !this.#isPutOff) {
      // It gets as much more time as the block lasted.
      this.#isPutOff = true;
      schedule.set(this, schedule.now() + Math.min(late, this.#wait.timeout));
    } else {
      this.fail(this.timeoutError());
    }
  }

  /** The signal was aborted. */
  abort(reason: unknown): void {
    this.fail(reason);
  }

  fail(reason: unknown): void {
    if (this.#settle()) this.#reject(reason);
  }

  /** The error if nothing was granted in time. */
  timeoutError(): Error {
    const own = { failure: this.#failure, answeredAt: this.#refusedAt, silentSince: undefined };
    const answers =
      this.#at === undefined ? own : (this.#grants.lines.answersFor(this.#at, this.limit) ?? own);
    const { failure } = answers;
    const reason = failure === undefined ? this.#reason(answers) : messageOf(failure);
    return leaseTimeout(this.#keys, this.#wait.timeout, reason, failure ?? this.#failure);
  }

  /** Why nothing was granted, though the store has not failed: no more than is known. */
  #reason({ answeredAt = -Infinity, silentSince }: Answers): string {
    const now = this.#grants.waiting.schedule.now();
    const key = this.#refused ?? this.#at ?? this.#keys[0]!;
    const held = this.#grants.whyRefused(key, this.limit, this.#keys.length > 1);
    const last = Math.max(answeredAt, this.#refusedAt ?? -Infinity);
    if (silentSince === undefined) return held;
    const silence = Math.floor(now - silentSince);
    const silent = `has not answered ${this.limit > 1 ? 'for all slots ' : ''}within ${silence} ms`;
    if (last === -Infinity) return `the store ${silent}`;
    if (silence < SILENCE) return held;
    return `the store said ${Math.floor(now - last)} ms ago that ${held}, and ${silent} since`;
  }

  /**
   * The keys to ask for. The key of its line comes first: if the store refuses that key, a store that takes one key at a
   * time has taken nothing.
   */
  get #wanted(): readonly string[] {
    const at = this.#at;
    if (at === undefined || this.#keys.length === 1) return this.#keys;
    return this.#round >= ROUNDS ? [at] : [at, ...this.#keys.filter((key) => key !== at)];
  }

  async #attempt(inTurn: boolean, slots?: readonly number[]): Promise<boolean> {
    const grants = this.#grants;
    const at = this.#at;
    const wanted = this.#wanted;
    const goesFirst = inTurn ? wanted.find((key) => key !== at && grants.isAwaited(key)) : undefined;
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
    this.#ended();
    throw error;
  }

  #ended(): void {
    if (this.#settled) this.#giveBack();
    // The timeout was put off for this answer only.
    else if (this.#isPutOff) this.fail(this.timeoutError());
    else if (this.#requester.isSpent) this.#replaceRequester();
  }

  #wasRefused({ refused: key }: Refusal): void {
    this.#refused = key;
    this.#refusedAt = this.#grants.waiting.schedule.now();
    if (this.#settled || this.#at === undefined || this.#at === key) return;
    const inOrder = ++this.#round >= ROUNDS;
    this.#move(inOrder ? this.#keys[0]! : key, !inOrder);
  }

  #wasGranted(holds: readonly Hold[]): void {
    const taken = this.#taken;
    taken.push(...holds);
    if (this.#settled) return;
    if (taken.length < this.#keys.length) {
      this.#move(this.#keys[taken.length]!, false);
    } else if (this.#round > 0 && taken.some((hold) => !hold.checkHeld())) {
      // Some holds were lost while the acquisition waited for the rest.
      this.#giveBack();
      this.#replaceRequester();
      this.#move(this.#keys[0]!, false);
    } else {
      if (taken.length > 1) taken.sort(byKey);
      const lease = createLease(taken.splice(0));
      if (this.limit > 1) this.slot = lease.slot;
      if (this.#settle(this.limit > 1)) this.#resolve(lease);
    }
  }

  #join(key: string, wasRefused: boolean): void {
    this.#at = key;
    this.#grants.lines.join(key, this, wasRefused);
  }

  /** Moves to the line of another key. It joins that line after the line it leaves was notified that the attempt has ended. */
  #move(key: string, wasRefused: boolean): void {
    const before = this.#at!;
    if (key === before) return;
    this.#at = key;
    this.#grants.lines.leave(before, this, !this.#taken.some((hold) => hold.key === before));
    queueMicrotask(() => {
      if (!this.#settled) this.#join(key, wasRefused);
    });
  }

  /** Only while it holds nothing, or has given it back. */
  #replaceRequester(): void {
    this.#grants.giveBack(this.#requester, this.#terms);
    this.#requester = this.#grants.newRequester();
  }

  /** `mayBeFree`: see `WaitingLines.leave`. */
  #settle(mayBeFree = false): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    const { waiting, lines } = this.#grants;
    if (this.#at !== undefined) {
      waiting.schedule.clear(this);
      waiting.acquisitions.delete(this);
      lines.leave(this.#at, this, mayBeFree);
    }
    if (this.#wait.signal) forgetAbort(this.#wait.signal, this);
    if (this.#asking) this.#requester.isCancelled = true;
    else this.#giveBack();
    return true;
  }

  /** Everything: what it has, and what it may have been granted without an answer. */
  #giveBack(): void {
    this.#grants.giveBack(this.#requester, this.#terms, this.#taken.splice(0));
  }
}

/** The order that all acquisitions share: by UTF-16 code units. */
function byKey(one: Hold, other: Hold): number {
  return one.key < other.key ? -1 : 1;
}
