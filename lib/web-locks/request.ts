import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { webLockChannel, type WebLockMessage } from '../common/diagnostics.js';
import { defer, performance } from '../common/host.js';
import { addCount, COUNT, addWait, type Count, type ThreadCounts } from '../engine/contract/counts.js';
import type { Mode } from '../engine/contract/mode.js';
import type { WebLockHow, WebLockRequester } from '../engine/contract/web-locks.js';
import type { RequestOptions } from './arguments.js';
import { CallbackResult } from './callback-result.js';
import type { ManagerContext } from './context.js';
import { stolenError, timeoutError } from './errors.js';
import { Limit, type Expiring } from './limits.js';
import { createLock } from './lock.js';
import type { LockGrantedCallback } from './types.js';

/**
 * The stages of a request:
 *
 * | stage         | known to the engine        | next                                                       |
 * | ------------- | -------------------------- | ---------------------------------------------------------- |
 * | `UNSENT`      | no, or not answered yet    | one of the stages below, within the same call              |
 * | `PENDING`     | in the queue of its name   | `GRANTED`, `ABORTED`, `TIMED_OUT`                          |
 * | `GRANTED`     | as held                    | `RUNNING`, or `ABORTED` in the same tick                   |
 * | `RUNNING`     | as held, unless stolen     | `ENDED`                                                    |
 * | `UNAVAILABLE` | no                         | the callback is called with null                           |
 * | `ABORTED`     | no                         | the promise rejects                                        |
 * | `TIMED_OUT`   | no                         | the promise rejects                                        |
 * | `BROKEN`      | perhaps                    | the request is withdrawn, and the promise rejects          |
 * | `ENDED`       | no                         |                                                            |
 */
const UNSENT = 0;
const PENDING = 1;
const GRANTED = 2;
const RUNNING = 3;
const UNAVAILABLE = 4;
const ABORTED = 5;
const TIMED_OUT = 6;
const BROKEN = 7;
const ENDED = 8;

/** The function that {@link keepWake} received last. */
const last: { wake: ((request: LockRequest) => void) | undefined } = { wake: undefined };
/** The executor of all promises. A closure for each promise would cost more than the promise. */
const keepWake = (resolve: (request: LockRequest) => void): void => {
  last.wake = resolve;
};

const ignore = (): void => undefined;

/**
 * One request of `LockManager.request`. A microtask calls the callback, and the request's promise settles
 * with the result of that microtask. So the callback runs in the request's context (`AsyncLocalStorage`), and
 * its errors reject the promise. If the request has to wait, a second promise is resolved at the end of the
 * wait, and a reaction of that promise calls the callback.
 *
 * The microtask is scheduled before the engine is called. If something fails after that, such as adding a
 * listener, the microtask withdraws the request from the engine.
 */
export class LockRequest implements WebLockRequester, Abortable, Expiring {
  ticket = -1;
  readonly #manager: ManagerContext;
  readonly #name: string;
  readonly #mode: Mode;
  readonly #callback: LockGrantedCallback<unknown>;
  readonly #signal: AbortSignal | undefined;
  #stage = UNSENT;
  #isStolen = false;
  /** Ends the wait: resolves the second promise with the request. Undefined if the request does not wait. */
  #wake: ((request: this) => void) | undefined = undefined;
  #limit: Limit | undefined = undefined;
  /** The error of the failure. In stage `BROKEN` it may also be a promise that is rejected with the error. */
  #reason: unknown = undefined;
  #result: CallbackResult | undefined = undefined;
  /** The time at which the request began to wait. Undefined if it does not count as waiting. */
  #waitsSince: number | undefined = undefined;
  /**
   * The time at which the request was made or, later, granted. Undefined if the channel has no subscriber.
   */
  #since: number | undefined = undefined;

  static readonly #goOn = (request: LockRequest): unknown => request.#afterWait();

  constructor(
    manager: ManagerContext,
    name: string,
    options: RequestOptions,
    callback: LockGrantedCallback<unknown>,
  ) {
    this.#manager = manager;
    this.#name = name;
    this.#mode = options.mode;
    this.#callback = callback;
    this.#signal = options.signal;
    if (webLockChannel.hasSubscribers) this.#since = performance.now();
  }

  /** Sends the request to the engine. Throws only if the request was not sent. */
  send({ ifAvailable, steal, timeout }: RequestOptions): Promise<unknown> {
    const promise = defer(() => this.#afterCall(timeout), undefined) as Promise<unknown>;
    try {
      const how: WebLockHow = steal ? 'steal' : ifAvailable || timeout === 0 ? 'ifAvailable' : 'wait';
      const { counts, locks } = this.#manager;
      const answer = locks.request(this.#name, this.#mode, how, this);
      if (answer === 'held') {
        this.#stage = GRANTED;
        addCount(counts, COUNT.held);
      } else if (answer === 'pending') {
        this.#stage = PENDING;
        addCount(counts, COUNT.contended);
        addCount(counts, COUNT.waiting);
        this.#waitsSince = performance.now();
        return this.#wait(timeout) ?? promise;
      } else {
        this.#stage = UNAVAILABLE;
      }
    } catch (error) {
      this.#reason = error;
      this.#stage = BROKEN;
    }
    return promise;
  }

  granted(): void {
    if (this.#stage !== PENDING) return;
    this.#endWait(GRANTED, COUNT.held);
    this.#wake!(this);
  }

  stolen(): void {
    if (!this.#isStolen && (this.#stage === GRANTED || this.#stage === RUNNING)) this.#wasHeld();
    this.#isStolen = true;
    // The standard requires this: the callback of a granted request is called even if the
    // lock was stolen since the grant.
    if (this.#stage !== RUNNING) return;
    this.#result?.settle(stolenError(), true);
    this.#publish('stolen');
  }

  abort(reason: unknown): void {
    if (this.#stage === PENDING) {
      this.#withdraw();
      this.#reason = reason;
      this.#endWait(ABORTED, COUNT.aborts);
    }
    if (this.#stage === ABORTED) this.#wake!(this);
  }

  expire(): void {
    if (this.#stage !== PENDING) return;
    // If the request was granted in the meantime, the engine no longer notifies it.
    if (this.#manager.locks.cancel(this)) this.#endWait(TIMED_OUT, COUNT.timeouts);
    else this.#endWait(GRANTED, COUNT.held);
    this.#wake!(this);
  }

  #endWait(stage: number, count: Count): void {
    this.#stage = stage;
    const { counts } = this.#manager;
    addCount(counts, count);
    this.#countWaited(counts);
  }

  #countWaited(counts: ThreadCounts): void {
    if (this.#waitsSince === undefined) return;
    addCount(counts, COUNT.waiting, -1);
    addWait(counts, performance.now() - this.#waitsSince);
    this.#waitsSince = undefined;
  }

  /** Call when the lock was released or stolen. */
  #wasHeld(): void {
    addCount(this.#manager.counts, COUNT.held, -1);
  }

  /**
   * Makes the request wait, and returns the promise for it. Returns undefined after a stack overflow, because
   * then nothing could wake the request; the microtask rejects instead.
   */
  #wait(timeout: number): Promise<unknown> | undefined {
    const granted = new Promise(keepWake);
    const { wake } = last;
    // A leftover reference would keep the promise alive, and with it the request.
    last.wake = undefined;
    if (wake === undefined) {
      this.#reason = granted;
      this.#stage = BROKEN;
      return undefined;
    }
    this.#wake = wake;
    const promise = granted.then(LockRequest.#goOn);
    if (this.#signal !== undefined) awaitAbort(this.#signal, this);
    if (timeout !== Infinity) this.#limit = new Limit(this, timeout);
    return promise;
  }

  /** Runs in the microtask of each request. If the request waits, the result is unused. */
  #afterCall(timeout: number): unknown {
    if (this.#stage === BROKEN) {
      this.#withdraw();
      this.#countWaited(this.#manager.counts);
      this.#forget();
      if (this.#reason instanceof Promise) return this.#reason;
      throw this.#reason;
    }
    // A request that waits, or has waited, continues in another microtask.
    if (this.#wake !== undefined) return undefined;
    if (this.#stage === GRANTED) return this.#run();
    const isLate = timeout === 0;
    if (isLate) addCount(this.#manager.counts, COUNT.timeouts);
    this.#publish(isLate ? 'timeout' : 'unavailable');
    if (isLate) throw timeoutError(timeout);
    const callback = this.#callback;
    return callback(null);
  }

  #afterWait(): unknown {
    this.#forget();
    if (this.#stage === GRANTED) return this.#run();
    const isLate = this.#stage === TIMED_OUT;
    this.#publish(isLate ? 'timeout' : 'aborted');
    throw isLate ? timeoutError(this.#limit!.timeout) : this.#reason;
  }

  /** Calls the callback, and returns the result for the promise. */
  #run(): unknown {
    const signal = this.#signal;
    // No listener is notified of an abort between the grant and this microtask. So the signal is read here.
    if (signal?.aborted === true) {
      this.#stage = ABORTED;
      this.#manager.locks.release(this);
      if (!this.#isStolen) this.#wasHeld();
      addCount(this.#manager.counts, COUNT.aborts);
      this.#publish('aborted');
      throw signal.reason;
    }
    this.#stage = RUNNING;
    this.#publish('granted');
    if (this.#isStolen) this.#publish('stolen');
    const callback = this.#callback;
    let result: unknown;
    try {
      result = callback(createLock(this.#name, this.#mode.name));
      // Only objects and functions can be promises.
      if ((typeof result === 'object' && result !== null) || typeof result === 'function') {
        return this.#holdUntil(result);
      }
    } catch (error) {
      this.#end();
      throw error;
    }
    this.#end();
    return result;
  }

  #holdUntil(object: object): CallbackResult {
    const result = new CallbackResult();
    this.#result = result;
    if (this.#isStolen) {
      // The lock was stolen before the callback ran, so the callback's result is not used.
      Promise.resolve(object).then(ignore, ignore);
      result.settle(stolenError(), true);
    } else {
      Promise.resolve(object).then(
        (value) => this.#settle(value, false),
        (reason: unknown) => this.#settle(reason, true),
      );
    }
    return result;
  }

  /**
   * Called when the callback's result has settled. If the lock was stolen, the
   * promise has already been rejected.
   */
  #settle(outcome: unknown, hasFailed: boolean): void {
    if (this.#stage !== RUNNING) return;
    try {
      this.#end();
    } catch (error) {
      this.#result!.settle(error, true);
      return;
    }
    this.#result!.settle(outcome, hasFailed);
  }

  /** Ends the request after its callback. Throws if the lock was stolen during the callback. */
  #end(): void {
    if (this.#stage !== RUNNING) return;
    this.#stage = ENDED;
    if (this.#isStolen) throw stolenError();
    // The release comes first, so the next request is granted before this one's promise settles.
    const kept = this.#manager.locks.release(this);
    this.#wasHeld();
    this.#publish(kept ? 'released' : 'stolen');
    if (!kept) throw stolenError();
  }

  /** Withdraws the request, whether it is pending, granted, or unknown to the engine. */
  #withdraw(): void {
    const { locks } = this.#manager;
    if (this.ticket >= 0 && !locks.cancel(this)) locks.release(this);
  }

  /** Removes the listener and the timeout of a wait. */
  #forget(): void {
    if (this.#signal !== undefined) forgetAbort(this.#signal, this);
    this.#limit?.end();
  }

  #publish(event: WebLockMessage['event']): void {
    if (!webLockChannel.hasSubscribers) return;
    const now = performance.now();
    const elapsed = this.#since === undefined ? undefined : now - this.#since;
    const { name } = this.#mode;
    const message = { event, manager: this.#manager.name, name: this.#name, mode: name, elapsed, threadId };
    webLockChannel.publish(message satisfies WebLockMessage);
    if (event === 'granted') this.#since = now;
  }

  static {
    // A promise is resolved with the request itself. If other code adds a `then` to all objects, a request
    // must still not count as a promise.
    Object.defineProperty(this.prototype, 'then', { value: undefined });
  }
}
