import { checkFunction } from '../../common/checks.js';
import { invalidArgType, outOfRange } from '../../common/errors.js';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { Replies } from './replies.js';

/** The timers, one for each time limit. A store has one or two. */
const limits = new Map<number, Replies>();
/** More limits than a program has, unless it computes them. */
const MOST_LIMITS = 100;

/**
 * For stores with a time limit of their own: calls the operation, and rejects with LeaseStoreError if its promise has not
 * settled within `milliseconds`, 0 to 2^31 - 1. A timer of the store's own also counts the time for which the event
 * loop was blocked, and fires before the loop has read an answer that arrived meanwhile: it reports a failure of what
 * happened. This one lets the loop turn first, and adds the time of the longest block, at most the limit once more.
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
