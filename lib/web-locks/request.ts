import { threadId } from 'node:worker_threads';
import { awaitAbort, forgetAbort, type Abortable } from '../common/abort.js';
import { webLockChannel, type WebLockMessage } from '../common/diagnostics.js';
import { defer, performance } from '../common/host.js';
import type { Mode } from '../engine/contract/mode.js';
import type { NamedHow, NamedRequester } from '../engine/contract/named-locks.js';
import type { RequestOptions } from './arguments.js';
import type { ManagerContext } from './context.js';
import { stolenError, timeoutError } from './errors.js';
import { Limit, type Expiring } from './limits.js';
import { createLock } from './lock.js';
import type { LockGrantedCallback } from './types.js';

/**
 * Where a request stands:
 *
 * | stage         | the engine has it          | next                                                |
 * | ------------- | -------------------------- | --------------------------------------------------- |
 * | `UNSENT`      | no, or it is yet to answer | one of those below, within the same call            |
 * | `PENDING`     | in the queue of its name   | `GRANTED`, or `FAILED` by its signal or timeout     |
 * | `GRANTED`     | as held                    | `RUNNING`, or `FAILED` if its signal is aborted     |
 * | `RUNNING`     | as held, unless stolen     | `ENDED`                                             |
 * | `UNAVAILABLE` | no                         | its callback is called with null                    |
 * | `BROKEN`      | perhaps                    | it is withdrawn, and its promise rejects            |
 * | `FAILED`      | no                         | its promise rejects                                 |
 * | `ENDED`       | no                         |                                                     |
 */
const UNSENT = 0;
const PENDING = 1;
const GRANTED = 2;
const RUNNING = 3;
const UNAVAILABLE = 4;
const BROKEN = 5;
const FAILED = 6;
const ENDED = 7;

/** What an executor got last. One function for all promises, as a closure for each would cost more than the promise. */
let wakeLast!: () => void;
const keepWake = (resolve: (value: undefined) => void): void => {
  wakeLast = resolve as () => void;
};

const ignore = (): void => undefined;

/**
 * One request of `LockManager.request`. Its promise is that of a microtask, which calls the callback; so the callback runs
 * in the context of the request (`AsyncLocalStorage`), and what it throws rejects the promise. A request that waits has
 * another promise in front of it, which the engine's grant resolves.
 *
 * If the callback returns an object, the microtask returns this request, whose {@link LockRequest.then} gets what settles
 * the promise. This costs less than a promise between the two.
 *
 * T1 (`engine/contract/engine.ts`): the microtask exists before the engine is asked. If something fails after that, such
 * as a listener that cannot be added, the microtask takes back whatever the engine has granted.
 */
export class LockRequest implements NamedRequester, Abortable, Expiring {
  ticket = -1;
  readonly #manager: ManagerContext;
  readonly #name: string;
  readonly #mode: Mode;
  readonly #callback: LockGrantedCallback<unknown>;
  readonly #signal: AbortSignal | undefined;
  #stage = UNSENT;
  /** What is published if it is not granted. */
  #endedBy: 'unavailable' | 'aborted' | 'timeout' = 'unavailable';
  #isStolen = false;
  #wake: (() => void) | undefined = undefined;
  #limit: Limit | undefined = undefined;
  /** Why it failed, or what the callback's promise settled with before {@link then} was called. */
  #outcome: unknown = undefined;
  #hasThrown = false;
  #resolve: ((value: unknown) => void) | undefined = undefined;
  #reject: ((reason: unknown) => void) | undefined = undefined;
  /** When it was made, and later when it was granted; undefined if nobody listens. */
  #since: number | undefined = undefined;

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
    const promise = defer(() => this.#afterCall(), undefined) as Promise<unknown>;
    try {
      const how: NamedHow = steal ? 'steal' : ifAvailable || timeout === 0 ? 'ifAvailable' : 'wait';
      const answer = this.#manager.locks.request(this.#name, this.#mode, how, this);
      if (answer === 'held') {
        this.#stage = GRANTED;
      } else if (answer === 'pending') {
        this.#stage = PENDING;
        return this.#wait(timeout);
      } else {
        this.#stage = UNAVAILABLE;
        if (timeout === 0) this.#endedBy = 'timeout';
      }
    } catch (error) {
      this.#outcome = error;
      this.#stage = this.#stage === PENDING ? BROKEN : FAILED;
    }
    return promise;
  }

  granted(): void {
    if (this.#stage !== PENDING) return;
    this.#stage = GRANTED;
    this.#wake!();
  }

  stolen(): void {
    this.#isStolen = true;
    // As the standard has it, the callback of a request that was granted is called, whoever has the lock by now.
    if (this.#stage !== RUNNING) return;
    this.#reject?.(stolenError());
    this.#tell('stolen');
  }

  abort(reason: unknown): void {
    // Before anything is changed: if this throws, it is called once more.
    if (this.#stage === PENDING) {
      this.#withdraw();
      this.#fail(reason, 'aborted');
    }
    if (this.#stage === FAILED) this.#wake!();
  }

  expire(): void {
    if (this.#stage !== PENDING) return;
    // If it was granted in the meantime, nobody else will say so.
    if (this.#manager.locks.cancel(this)) this.#fail(timeoutError(this.#limit!.timeout), 'timeout');
    else this.#stage = GRANTED;
    this.#wake!();
  }

  /** Only for the promise of this request, which calls it once the callback has returned an object. */
  then(resolve: (value: unknown) => void, reject: (reason: unknown) => void): void {
    if (this.#isStolen) reject(stolenError());
    else if (this.#stage === ENDED) (this.#hasThrown ? reject : resolve)(this.#outcome);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** For a request that waits. */
  #wait(timeout: number): Promise<unknown> {
    const granted = new Promise(keepWake);
    this.#wake = wakeLast;
    const promise = granted.then(() => this.#afterWait());
    if (this.#signal !== undefined) awaitAbort(this.#signal, this);
    if (timeout !== Infinity) this.#limit = new Limit(this, timeout);
    return promise;
  }

  /** The microtask of each request. Of one that waits nobody sees the result. */
  #afterCall(): unknown {
    switch (this.#stage) {
      case GRANTED:
        // One that waited and was granted already has another microtask.
        return this.#wake === undefined ? this.#run() : undefined;
      case UNAVAILABLE:
        return this.#runWithout();
      case BROKEN:
        this.#stage = FAILED;
        this.#withdraw();
        this.#forget();
        throw this.#outcome;
      case FAILED:
        // One that waited has another microtask for that.
        if (this.#wake !== undefined) return undefined;
        throw this.#outcome;
      default:
        return undefined;
    }
  }

  #afterWait(): unknown {
    this.#forget();
    if (this.#stage === GRANTED) return this.#run();
    this.#tell(this.#endedBy);
    throw this.#outcome;
  }

  /** It was not available at once. */
  #runWithout(): unknown {
    this.#tell(this.#endedBy);
    if (this.#endedBy === 'timeout') throw timeoutError(0);
    const callback = this.#callback;
    return callback(null);
  }

  /** Calls the callback. Its result is that of the promise. */
  #run(): unknown {
    const signal = this.#signal;
    // A signal needs no listener for what is a microtask away.
    if (signal?.aborted === true) {
      this.#stage = FAILED;
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
        this.#holdUntil(result);
        return this;
      }
    } catch (error) {
      this.#end();
      throw error;
    }
    this.#end();
    return result;
  }

  #holdUntil(result: unknown): void {
    if (!this.#isStolen) {
      Promise.resolve(result).then(
        (value) => this.#settle(value, false),
        (reason: unknown) => this.#settle(reason, true),
      );
    } else {
      // It was stolen before it ran. Nobody waits for what the callback does.
      Promise.resolve(result).then(ignore, ignore);
    }
  }

  /** The callback has returned or thrown. Throws if the lock was stolen before. */
  #end(): void {
    if (this.#stage !== RUNNING) return;
    this.#stage = ENDED;
    if (this.#isStolen) throw stolenError();
    // The next one is granted before this one's promise settles.
    const kept = this.#manager.locks.release(this);
    this.#tell(kept ? 'released' : 'stolen');
    if (!kept) throw stolenError();
  }

  /** What the callback has returned is settled. */
  #settle(outcome: unknown, hasThrown: boolean): void {
    // If it was stolen, the promise was rejected then.
    if (this.#stage !== RUNNING || this.#isStolen) return;
    this.#outcome = outcome;
    this.#hasThrown = hasThrown;
    try {
      this.#end();
    } catch (error) {
      this.#outcome = error;
      this.#hasThrown = true;
    }
    (this.#hasThrown ? this.#reject : this.#resolve)?.(this.#outcome);
  }

  /** Takes it back, whether it is pending or was granted. */
  #withdraw(): void {
    const { locks } = this.#manager;
    if (!locks.cancel(this)) locks.release(this);
  }

  #fail(reason: unknown, event: 'aborted' | 'timeout'): void {
    this.#outcome = reason;
    this.#endedBy = event;
    this.#stage = FAILED;
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
}
