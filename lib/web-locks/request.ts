import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { webLockChannel, type WebLockMessage } from '../common/diagnostics.js';
import { defer, performance } from '../common/host.js';
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
 * Where a request stands:
 *
 * | stage         | the engine has it          | next                                                       |
 * | ------------- | -------------------------- | ---------------------------------------------------------- |
 * | `UNSENT`      | no, or it is yet to answer | one of those below, within the same call                   |
 * | `PENDING`     | in the queue of its name   | `GRANTED`, `ABORTED`, `TIMED_OUT`                          |
 * | `GRANTED`     | as held                    | `RUNNING`, or `ABORTED` in the same tick                   |
 * | `RUNNING`     | as held, unless stolen     | `ENDED`                                                    |
 * | `UNAVAILABLE` | no                         | its callback is called with null                           |
 * | `ABORTED`     | no                         | its promise rejects                                        |
 * | `TIMED_OUT`   | no                         | its promise rejects                                        |
 * | `BROKEN`      | perhaps                    | it is withdrawn, and its promise rejects                   |
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

/** What {@link keepWake} got last. */
const last: { wake: ((request: LockRequest) => void) | undefined } = { wake: undefined };
/** One executor for all promises: a closure for each would cost more than the promise. */
const keepWake = (resolve: (request: LockRequest) => void): void => {
  last.wake = resolve;
};

const ignore = (): void => undefined;

/**
 * One request of `LockManager.request`. Its promise is that of a microtask, which calls the callback; so the callback runs
 * in the context of the request (`AsyncLocalStorage`), and what it throws rejects the promise. A request that waits has
 * another promise in front of it, which the engine's grant resolves.
 *
 * The microtask exists before the engine is asked. If something fails after that, such as a listener that cannot be added,
 * the microtask takes back whatever the engine has granted.
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
  /** Has a request that waits go on in another microtask. */
  #wake: ((request: this) => void) | undefined = undefined;
  #limit: Limit | undefined = undefined;
  /** Why it failed; if it is `BROKEN`, perhaps a promise that is rejected with that. */
  #reason: unknown = undefined;
  #result: CallbackResult | undefined = undefined;
  /** When it was made, and later when it was granted; undefined if nobody listens. */
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

  /** Makes the request. Throws only if it has not been made. */
  send({ ifAvailable, steal, timeout }: RequestOptions): Promise<unknown> {
    const promise = defer(() => this.#afterCall(timeout), undefined) as Promise<unknown>;
    try {
      const how: WebLockHow = steal ? 'steal' : ifAvailable || timeout === 0 ? 'ifAvailable' : 'wait';
      const answer = this.#manager.locks.request(this.#name, this.#mode, how, this);
      if (answer === 'held') {
        this.#stage = GRANTED;
      } else if (answer === 'pending') {
        this.#stage = PENDING;
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
    this.#stage = GRANTED;
    this.#wake!(this);
  }

  stolen(): void {
    this.#isStolen = true;
    // The standard calls the callback of a request that was granted, whoever has the lock by now.
    if (this.#stage !== RUNNING) return;
    this.#result?.settle(stolenError(), true);
    this.#tell('stolen');
  }

  abort(reason: unknown): void {
    if (this.#stage === PENDING) {
      this.#withdraw();
      this.#reason = reason;
      this.#stage = ABORTED;
    }
    if (this.#stage === ABORTED) this.#wake!(this);
  }

  expire(): void {
    if (this.#stage !== PENDING) return;
    // If it was granted in the meantime, nobody else will say so.
    this.#stage = this.#manager.locks.cancel(this) ? TIMED_OUT : GRANTED;
    this.#wake!(this);
  }

  /** The request waits. Undefined if nothing could wake it, as the stack overflowed: the microtask rejects. */
  #wait(timeout: number): Promise<unknown> | undefined {
    const granted = new Promise(keepWake);
    const { wake } = last;
    // It would keep the promise alive, and with it the request.
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

  /** The microtask of each request. Nobody sees the result of one that waits. */
  #afterCall(timeout: number): unknown {
    if (this.#stage === BROKEN) {
      this.#withdraw();
      this.#forget();
      if (this.#reason instanceof Promise) return this.#reason;
      throw this.#reason;
    }
    // One that waits, or has waited, has another microtask.
    if (this.#wake !== undefined) return undefined;
    if (this.#stage === GRANTED) return this.#run();
    const isLate = timeout === 0;
    this.#tell(isLate ? 'timeout' : 'unavailable');
    if (isLate) throw timeoutError(timeout);
    const callback = this.#callback;
    return callback(null);
  }

  #afterWait(): unknown {
    this.#forget();
    if (this.#stage === GRANTED) return this.#run();
    const isLate = this.#stage === TIMED_OUT;
    this.#tell(isLate ? 'timeout' : 'aborted');
    throw isLate ? timeoutError(this.#limit!.timeout) : this.#reason;
  }

  /** Calls the callback. Its result is that of the promise. */
  #run(): unknown {
    const signal = this.#signal;
    // A signal needs no listener for what is a microtask away.
    if (signal?.aborted === true) {
      this.#stage = ABORTED;
      this.#manager.locks.release(this);
      this.#tell('aborted');
      throw signal.reason;
    }
    this.#stage = RUNNING;
    this.#tell('granted');
    if (this.#isStolen) this.#tell('stolen');
    const callback = this.#callback;
    let result: unknown;
    try {
      result = callback(createLock(this.#name, this.#mode.name));
      // Only objects can be promises.
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
      // It was stolen before it ran. Nobody waits for what the callback does.
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

  /** What the callback has returned is settled. If the lock was stolen, the promise was rejected then. */
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

  /** The callback has ended. Throws if the lock was stolen before. */
  #end(): void {
    if (this.#stage !== RUNNING) return;
    this.#stage = ENDED;
    if (this.#isStolen) throw stolenError();
    // The next one is granted before this one's promise settles.
    const kept = this.#manager.locks.release(this);
    this.#tell(kept ? 'released' : 'stolen');
    if (!kept) throw stolenError();
  }

  /** Takes it back, whether it is pending, was granted, or has not come to the engine. */
  #withdraw(): void {
    const { locks } = this.#manager;
    if (this.ticket >= 0 && !locks.cancel(this)) locks.release(this);
  }

  /** It does not wait any more. */
  #forget(): void {
    if (this.#signal !== undefined) forgetAbort(this.#signal, this);
    this.#limit?.end();
  }

  #tell(event: WebLockMessage['event']): void {
    if (!webLockChannel.hasSubscribers) return;
    const now = performance.now();
    const elapsed = this.#since === undefined ? undefined : now - this.#since;
    const { name } = this.#mode;
    const message = { event, manager: this.#manager.name, name: this.#name, mode: name, elapsed, threadId };
    webLockChannel.publish(message satisfies WebLockMessage);
    if (event === 'granted') this.#since = now;
  }

  static {
    // A promise is resolved with it: whatever others add to all objects, it is not mistaken for a promise.
    Object.defineProperty(this.prototype, 'then', { value: undefined });
  }
}
