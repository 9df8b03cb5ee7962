import timers from 'node:timers/promises';
import { performance } from '../../common/host.js';
import { LockTimeoutError } from '../../common/errors.js';
import { LeaseStoreError, leaseTimeout } from '../contract/errors.js';
import type { Backoff } from '../contract/options.js';
import { discardLease, type Lease } from '../hold/lease.js';
import { WaitingAcquisition, type Wait } from './acquisition.js';

const { setTimeout: pause } = timers;

/**
 * How often an acquisition waits for the key that it was refused while it holds nothing. A set of keys that many want
 * one by one may never be free at the same time. So after that it keeps what it has while it waits for the rest, in the
 * order that all share.
 */
export const ROUNDS = 3;
/** Milliseconds: a timer is later than this only if the event loop was blocked. */
const BLOCKED = 5;
/** Milliseconds between looks at whether the queue in which it waits has let it go, when its timeout has passed. */
const LOOK_AGAIN = 100;

/** One owner's attempts at keys of one acquisition. Another round has another owner, unless owners are named. */
export interface Round {
  /**
   * Asks for all of the keys, once: their leases, or the first key that another owner has. Takes all or none. Rejects if
   * the store fails.
   */
  tryAll(keys: readonly string[]): Promise<readonly Lease[] | string>;
  /** Waits for one key, in its queue. Rejects with a LockTimeoutError or the signal's reason. */
  waitFor(key: string, timeout: number, signal: AbortSignal): Promise<Lease>;
  /** Releases what this round has taken, in reverse, together if the store can. Never throws or rejects. */
  release(leases: readonly Lease[]): Promise<void>;
  /** Nobody asks any more: gives back what may have been granted without an answer. Never throws. */
  end(): void;
}

/** What an acquisition of several keys needs of the manager's grants. */
export interface Rounds {
  readonly backoff: Backoff;
  begin(): Round;
  /** One lease of all keys. */
  join(leases: readonly Lease[]): Lease;
}

/**
 * An acquisition of several keys that waits.
 *
 * It asks for all of them at once, and takes all or none. If it was refused a key, it waits for that key in its queue, and
 * holds nothing meanwhile: a job that holds one key for long does not keep others from the rest. Then it asks for the
 * rest, and so on. After {@link ROUNDS} such rounds it takes one key after the other, in order, and holds them while it
 * waits for the next. Whoever holds a key and waits for another then waits for a later one, so there is no cycle; and in
 * each queue it gets its turn, so it does not starve.
 */
export class SeveralAcquisition extends WaitingAcquisition {
  readonly #keys: readonly string[];
  readonly #rounds: Rounds;
  /** Ends what it waits for. */
  readonly #stop = new AbortController();
  #round: Round;
  /** What it has in this round, by key, in the order in which it took them. */
  readonly #taken = new Map<string, Lease>();
  #refused: string | undefined;
  #failure: unknown;
  #earlier: unknown;
  #failures = 0;
  /** It waits in a queue, which knows better when the timeout has passed. */
  #queued = false;
  #isPutOff = false;

  constructor(wait: Wait, keys: readonly string[], rounds: Rounds) {
    super(wait);
    this.#keys = keys;
    this.#rounds = rounds;
    this.#round = rounds.begin();
  }

  start(): void {
    this.#take().then(
      (taken) => {
        if (!taken) return;
        const lease = this.#rounds.join(this.#keys.map((key) => this.#taken.get(key)!));
        this.#taken.clear();
        if (!this.grant(lease)) discardLease(lease).catch(() => undefined);
      },
      (error: unknown) => {
        if (error instanceof LockTimeoutError) {
          this.#failure = error.cause;
          this.failTimedOut();
        } else {
          this.fail(error);
        }
      },
    );
  }

  /** False if it was settled meanwhile. */
  async #take(): Promise<boolean> {
    let refused = await this.#tryRest();
    for (let round = 0; !this.#isOver(); round++) {
      // What it has may have been lost while it waited for more.
      refused ??= this.#keys.find((key) => this.#taken.get(key)?.held !== true);
      if (refused === undefined) return true;
      this.#rollBack();
      if (round >= ROUNDS) {
        for (const key of this.#keys) if (!(await this.#waitFor(key))) return false;
        refused = undefined;
      } else {
        if (!(await this.#waitFor(refused))) return false;
        refused = await this.#tryRest();
      }
    }
    return false;
  }

  /** Asks once for all that it does not have. Undefined if it has them now, else the key to wait for. */
  async #tryRest(): Promise<string | undefined> {
    const rest = this.#keys.filter((key) => !this.#taken.has(key));
    try {
      const result = await this.#round.tryAll(rest);
      this.#failures = 0;
      this.#failure = undefined;
      if (typeof result === 'string') this.#refused = result;
      else this.#took(result);
      // The timeout was put off for this answer only.
      if (this.#isPutOff && typeof result === 'string') this.failTimedOut();
      return typeof result === 'string' ? result : undefined;
    } catch (error) {
      if (!(error instanceof LeaseStoreError)) throw error;
      this.#failure = this.#earlier = error;
      if (this.#isPutOff) this.failTimedOut();
      await this.#pause();
      // Its queue asks again until the store answers.
      return rest[0];
    }
  }

  /** True if it has the key now; false if it was settled. */
  async #waitFor(key: string): Promise<boolean> {
    if (this.#isOver()) return false;
    const left = Math.max(this.endsAt - performance.now(), Number.MIN_VALUE);
    this.#queued = true;
    this.#refused = key;
    try {
      this.#took([await this.#round.waitFor(key, left, this.#stop.signal)]);
      return !this.#isOver();
    } catch (error) {
      if (this.#isOver()) return false;
      throw error;
    } finally {
      this.#queued = false;
    }
  }

  /** It may be settled during any wait. */
  #isOver(): boolean {
    return this.settled;
  }

  /** What came after it was settled goes back at once. */
  #took(leases: readonly Lease[]): void {
    for (const lease of leases) this.#taken.set(lease.key, lease);
    if (this.settled) this.#giveBack();
  }

  /** Gives back what it has, and goes on under a new owner, whose leases the releases on their way cannot free. */
  #rollBack(): void {
    this.#giveBack();
    this.#round.end();
    this.#round = this.#rounds.begin();
  }

  #giveBack(): void {
    if (this.#taken.size === 0) return;
    void this.#round.release([...this.#taken.values()]);
    this.#taken.clear();
  }

  /** After a failure of the store. */
  async #pause(): Promise<void> {
    const { initial, max, jitter } = this.#rounds.backoff;
    const length = Math.min(initial * 2 ** this.#failures++, max) * (1 - jitter * Math.random());
    await pause(length, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }

  /** If the event loop was blocked, the answer may have arrived: it gets as much more time as the block lasted. */
  protected override timedOut(late: number): void {
    if (this.#queued) {
      this.putOff(LOOK_AGAIN);
    } else if (late >= BLOCKED && !this.#isPutOff) {
      this.#isPutOff = true;
      this.putOff(late);
    } else {
      this.failTimedOut();
    }
  }

  protected override failTimedOut(): void {
    const { timeout } = this;
    this.fail(leaseTimeout(this.#keys, timeout, this.#failure, this.#earlier, this.#refused));
  }

  protected leave(): void {
    this.#stop.abort();
    this.#giveBack();
    this.#round.end();
  }
}
