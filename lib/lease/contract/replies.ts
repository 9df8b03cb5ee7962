import { Alarm, LONGEST_DELAY } from '../../common/timers.js';
import { checkFunction } from '../../common/checks.js';
import { timerNow } from '../../common/elapsed.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { afterTurn } from '../../common/host.js';
import { LeaseStoreError } from './errors.js';

/** If a timer is late by this many milliseconds or more, the event loop was blocked. */
const BLOCKED = 5;

/** A reply for which a caller is waiting. */
export interface Awaited {
  due: number;
  readonly reject: (error: LeaseStoreError) => void;
  isLate: boolean;
  /** The longest stall of the event loop by which this reply's time limit was extended, in milliseconds. */
  block: number;
}

/**
 * Limits the time for which callers wait for replies. The limit is the same for all replies, so replies are
 * due in the order of their requests, and one timer is enough. The timer does not keep the process alive; the
 * client's connection does.
 *
 * While the event loop is blocked, no reply is read, and some clients send nothing. This delay is not the
 * server's fault. So after a block, each awaited reply gets extra time: the time by which the timer was late,
 * but at most the limit itself. A later block extends the time of a reply only if this block is longer than
 * all earlier ones, and only by the difference. Without this rule, a timer that is late in every turn of the
 * event loop would extend the time forever. Before a reply counts as missing, the event loop turns once more,
 * because the reply may already be in the socket.
 */
export class Replies {
  readonly #timeout: number;
  readonly #from: string;
  readonly #awaited = new Set<Awaited>();
  readonly #alarm = new Alarm(() => this.#onAlarm(), false);
  #alarmDue = Infinity;

  /** `timeout`: the limit, in milliseconds. `from`: the name of the server or store, for messages. */
  constructor(timeout: number, from: string) {
    this.#timeout = timeout;
    this.#from = from;
  }

  /** Starts the wait for a reply. Calls `reject` if the limit is reached before {@link arrived} is called. */
  expect(reject: (error: LeaseStoreError) => void): Awaited {
    const awaited = { due: timerNow() + this.#timeout, reject, isLate: false, block: 0 };
    this.#awaited.add(awaited);
    this.#setAlarm(awaited.due, this.#timeout);
    return awaited;
  }

  /** Ends the wait for a reply. False if the reply came too late: `reject` was then already called. */
  arrived(awaited: Awaited): boolean {
    this.#awaited.delete(awaited);
    return !awaited.isLate;
  }

  #setAlarm(time: number, delay: number): void {
    if (time >= this.#alarm.due) return;
    // The timer's delay is rounded up to whole milliseconds.
    this.#alarmDue = time - delay + Math.ceil(delay);
    this.#alarm.setFor(time, delay);
  }

  #onAlarm(): void {
    const now = timerNow();
    const late = now - this.#alarmDue;
    if (late >= BLOCKED) this.#extend(Math.min(late, this.#timeout), now);
    // Node runs timers, then reads sockets, then runs immediates. So replies are read before `#rejectDue`
    // runs.
    afterTurn(() => this.#rejectDue(now));
  }

  /**
   * Extends the time of all awaited replies after a block of the event loop. An older reply never gets more
   * extra time than a newer reply, so replies stay due in the order of their requests.
   */
  #extend(block: number, now: number): void {
    for (const awaited of this.#awaited) {
      const more = block - awaited.block;
      if (more < BLOCKED) continue;
      awaited.due = Math.max(awaited.due, now + more);
      awaited.block = block;
    }
  }

  /** Rejects the replies that were due by the time `now`. */
  #rejectDue(now: number): void {
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
    if (first !== undefined) this.#setAlarm(first.due, Math.max(0, first.due - now));
  }
}

/** The {@link Replies} by their limits, in milliseconds. A store uses one or two limits. */
const limits = new Map<number, Replies>();
/**
 * The maximum number of entries in `limits`. Only a program that computes a different limit for each
 * operation exceeds it.
 */
const MOST_LIMITS = 100;

/**
 * Limits the time of a store's operation. Calls `operation`, and rejects with LeaseStoreError if its promise
 * has not settled within `milliseconds`, 0 to 2^31 - 1.
 *
 * A plain timer would also count the time during which the event loop is blocked. It could fire before the
 * event loop has read an answer that arrived during the block, and report a failure although the operation
 * succeeded. Before this function rejects, it lets the event loop turn once. It also extends the limit by the
 * length of the longest block, but at most by the limit itself.
 *
 * The wait does not keep the process alive. After a rejection, the operation keeps running, and its result is
 * ignored. Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad arguments.
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
