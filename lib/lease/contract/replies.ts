import { Alarm, LONGEST_DELAY } from '../../common/timers.js';
import { checkFunction } from '../../common/checks.js';
import { timerNow } from '../../common/elapsed.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { afterTurn } from '../../common/host.js';
import { LeaseStoreError } from './errors.js';

/** Milliseconds: a timer is later than this only if the event loop was blocked. */
const BLOCKED = 5;

/** A reply that somebody waits for. */
export interface Awaited {
  due: number;
  readonly reject: (error: LeaseStoreError) => void;
  isLate: boolean;
  /** The longest block of the event loop, in milliseconds, for which the time limit of this reply was extended. */
  block: number;
}

/**
 * The time limit of all replies that are awaited. The limit is the same for each, so they are due in the order in which
 * they were asked for, and one timer is enough. It does not keep the process alive: the client's connection does.
 *
 * While the event loop is blocked, no reply arrives, and some clients send nothing. That is not the server's fault. So
 * after a block, replies get as much more time as the timer was late, but at most the limit once more. A later block gives
 * a reply only the time by which it is longer: where every turn of the loop makes the timer late, the limit would otherwise
 * never pass. And the loop turns before a reply is given up: it may already be in the socket.
 */
export class Replies {
  readonly #timeout: number;
  readonly #from: string;
  readonly #awaited = new Set<Awaited>();
  readonly #alarm = new Alarm(() => this.#look(), false);
  #alarmDue = Infinity;

  /** `timeout`: in milliseconds. `from`: who replies, for messages. */
  constructor(timeout: number, from: string) {
    this.#timeout = timeout;
    this.#from = from;
  }

  /** Calls `reject` if the time limit passes before {@link arrived} is called. */
  expect(reject: (error: LeaseStoreError) => void): Awaited {
    const awaited = { due: timerNow() + this.#timeout, reject, isLate: false, block: 0 };
    this.#awaited.add(awaited);
    this.#lookAt(awaited.due, this.#timeout);
    return awaited;
  }

  /** False if it came too late. */
  arrived(awaited: Awaited): boolean {
    this.#awaited.delete(awaited);
    return !awaited.isLate;
  }

  #lookAt(time: number, delay: number): void {
    if (time >= this.#alarm.due) return;
    // The timer counts whole milliseconds.
    this.#alarmDue = time - delay + Math.ceil(delay);
    this.#alarm.setFor(time, delay);
  }

  #look(): void {
    const now = timerNow();
    const late = now - this.#alarmDue;
    if (late >= BLOCKED) this.#extend(Math.min(late, this.#timeout), now);
    // Node runs timers before it reads sockets, and immediates after that.
    afterTurn(() => this.#judge(now));
  }

  /** Gives all that are awaited the time of a block. Those that wait longer never get more, so they stay due first. */
  #extend(block: number, now: number): void {
    for (const awaited of this.#awaited) {
      const more = block - awaited.block;
      if (more < BLOCKED) continue;
      awaited.due = Math.max(awaited.due, now + more);
      awaited.block = block;
    }
  }

  /** Rejects the replies that were due then. */
  #judge(now: number): void {
    for (const awaited of this.#awaited) {
      if (awaited.due > now) break;
      this.#awaited.delete(awaited);
      awaited.isLate = true;
      awaited.reject(new LeaseStoreError(`${this.#from} has not answered within ${this.#timeout} ms`));
    }
    this.#next(timerNow());
  }

  #next(now: number): void {
    const [first] = this.#awaited;
    if (first !== undefined) this.#lookAt(first.due, Math.max(0, first.due - now));
  }
}

/** The timers, one for each time limit. A store has one or two. */
const limits = new Map<number, Replies>();
/** More limits than a program has, unless it computes them. */
const MOST_LIMITS = 100;

/**
 * For stores that limit the time of an operation: calls the operation, and rejects with LeaseStoreError if its promise has
 * not settled within `milliseconds`, 0 to 2^31 - 1. A plain timer would also count the time for which the event loop was
 * blocked, and fire before the loop has read an answer that arrived during the block. So it would report a failure although
 * the operation succeeded. This function lets the loop turn first, and adds the time of the longest block, at most the limit
 * once more.
 *
 * It does not keep the process alive. The operation is not ended, and its later result is ignored. Throws a TypeError
 * (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad arguments.
 */
export function answerWithin<T>(milliseconds: number, operation: () => PromiseLike<T>): Promise<T> {
  const replies = repliesWithin(milliseconds);
  checkFunction(operation, 'operation');
  return new Promise((resolve, reject) => {
    const awaited = replies.expect(reject);
    new Promise<T>((settle) => settle(operation())).then(
      (result) => {
        if (replies.arrived(awaited)) resolve(result);
      },
      (error: unknown) => {
        if (replies.arrived(awaited)) reject(error);
      },
    );
  });
}

function repliesWithin(milliseconds: number): Replies {
  if (typeof milliseconds !== 'number') throw invalidArgType('milliseconds', 'a number', milliseconds);
  if (!(milliseconds >= 0 && milliseconds <= LONGEST_DELAY)) {
    throw outOfRange('milliseconds', `a number from 0 to ${LONGEST_DELAY}`, milliseconds);
  }
  let replies = limits.get(milliseconds);
  if (replies === undefined) {
    replies = new Replies(milliseconds, 'the lease store');
    if (limits.size < MOST_LIMITS) limits.set(milliseconds, replies);
  }
  return replies;
}
