import { checkFunction, checkOptionsObject, checkString, type Names } from '../common/checks.js';
import type { HandleOf } from '../common/types.js';
import { DEFAULT_MANAGER, type WebLockState } from '../engine/contract/web-locks.js';
import { webLockEngine } from '../engine/select.js';
import { checkSupported, DEFAULTS, readOptions, toDomString } from './arguments.js';
import { ManagerContext } from './context.js';
import { handleOf, openHandle } from './handle.js';
import { LockRequest } from './request.js';
import type {
  LockGrantedCallback,
  LockInfo,
  LockManagerOptions,
  LockManagerSnapshot,
  LockOptions,
} from './types.js';

/**
 * Locks on names, like `navigator.locks` in browsers: the Web Locks API. {@link locks} is one manager
 * for all threads of the process. A new manager has a separate set of names, which it shares with the
 * threads that open its {@link handle}.
 *
 * A name is any string, and is locked exactly. Requests for a name are served strictly in order. If a
 * thread ends, its locks are released and its pending requests are dropped. Deadlocks are not
 * detected; `query()` shows them.
 */
export class LockManager {
  readonly #context: ManagerContext;

  /**
   * Throws a TypeError for bad options, and a LockError if another version of this package
   * uses the addon in this thread.
   */
  constructor(options?: LockManagerOptions) {
    this.#context =
      (options as unknown) instanceof ManagerContext
        ? (options as unknown as ManagerContext)
        : create(options);
  }

  /**
   * Opens the manager of a handle, in another thread or again in this one. Throws a TypeError or RangeError
   * for a value that is not a handle. Throws a LockError (ERR_LOCK_ENGINE) for a handle of another process.
   * Unless both threads have loaded the addon, it also throws this LockError for a handle of another thread.
   */
  static from(handle: HandleOf<'stripelock/lock-manager'>): LockManager {
    const { name, locks: opened } = openHandle(handle);
    return new LockManager(new ManagerContext(name, () => opened));
  }

  /** A structured-cloneable object that other threads open with {@link LockManager.from}. */
  get handle(): HandleOf<'stripelock/lock-manager'> {
    return handleOf(this.#context.locks.number, this.#context.name);
  }

  /**
   * Calls the callback after the lock is granted, in a microtask at the earliest. The lock is held until the
   * callback's result settles. The promise then settles in the same way.
   *
   * All errors reject the promise. After a bad argument, the reason is a TypeError, a RangeError or a
   * DOMException named NotSupportedError. After an abort, it is signal.reason. After a timeout, it is a
   * DOMException named TimeoutError. If the lock is stolen, it is a DOMException named AbortError.
   *
   * A waiting request keeps the event loop of its thread alive.
   */
  request<T>(name: string, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
  request<T>(name: string, options: LockOptions, callback: LockGrantedCallback<T>): Promise<Awaited<T>>;
  request<T>(
    name: string,
    optionsOrCallback: LockOptions | LockGrantedCallback<T>,
    maybeCallback?: LockGrantedCallback<T>,
  ): Promise<Awaited<T>> {
    try {
      const context = this.#context;
      const count = arguments.length;
      if (count < 2) throw new TypeError(`request() needs a name and a callback; it got ${count} arguments`);
      const text = typeof name === 'string' ? name : toDomString(name, 'name');
      const options = count === 2 ? DEFAULTS : readOptions(optionsOrCallback);
      const callback = count === 2 ? (optionsOrCallback as LockGrantedCallback<T>) : maybeCallback!;
      if (typeof callback !== 'function') checkFunction(callback, 'callback');
      checkSupported(text, options);
      const { signal } = options;
      if (signal?.aborted === true) return Promise.reject(signal.reason);
      return new LockRequest(context, text, options, callback).send(options) as Promise<Awaited<T>>;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** All held and pending requests of all threads. The snapshot is taken before the call returns. */
  query(): Promise<LockManagerSnapshot> {
    try {
      const { held, pending } = this.#context.locks.query();
      return Promise.resolve({ held: held.map(infoOf), pending: pending.map(infoOf) });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  static {
    const { prototype } = this;
    for (const member of ['request', 'query', 'handle']) {
      Object.defineProperty(prototype, member, { enumerable: true });
    }
    // In the standard, this is the number of required arguments.
    Object.defineProperty(Reflect.get(prototype, 'request'), 'length', { value: 2 });
    Object.defineProperty(this, 'length', { value: 0 });
    Object.defineProperty(prototype, Symbol.toStringTag, { value: 'LockManager', configurable: true });
  }
}

const NAMES: Names<LockManagerOptions> = { name: true };

function create(options: LockManagerOptions | undefined): ManagerContext {
  checkOptionsObject(options, NAMES);
  const name = options?.name === undefined ? '' : checkString(options.name, 'options.name');
  const opened = webLockEngine().open();
  return new ManagerContext(name, () => opened);
}

/** Converts the engine's state of a request to the form of the standard. */
function infoOf({ name, mode, threadId }: WebLockState): LockInfo {
  return { name, mode: mode.name, clientId: `node-${process.pid}-${threadId}` };
}

/**
 * One manager for all threads of the process. If the addon cannot be loaded, each thread has a
 * separate manager, with a warning.
 */
export const locks: LockManager = new LockManager(
  new ManagerContext('', () => webLockEngine().open(DEFAULT_MANAGER)),
);
