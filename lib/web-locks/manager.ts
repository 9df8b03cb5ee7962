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
 * Locks on names, as `navigator.locks` of browsers: the Web Locks API. {@link locks} is one manager for all threads of the
 * process. A new one has names of its own, and is for the threads that have its {@link handle}.
 *
 * A name is any string, and locked exactly. Each name has a queue: first come, first served. A lock that is held by a
 * thread that ends is freed, and its pending requests are dropped. Deadlocks are not refused; `query()` shows them.
 */
export class LockManager {
  readonly #context: ManagerContext;

  /** Throws a TypeError for bad options, a LockError if another version of this package uses the addon in this thread. */
  constructor(options?: LockManagerOptions) {
    this.#context =
      (options as unknown) instanceof ManagerContext
        ? (options as unknown as ManagerContext)
        : create(options);
  }

  /**
   * The same manager, in another thread (or again in this one). Throws a TypeError or RangeError for what is not a
   * handle; a LockError (ERR_LOCK_ENGINE) for one of another process, and in another thread if the addon cannot be loaded
   * here and there.
   */
  static from(handle: HandleOf<'stripelock/lock-manager'>): LockManager {
    const { name, locks: opened } = openHandle(handle);
    return new LockManager(new ManagerContext(name, () => opened));
  }

  /** Structured-cloneable: send it to another thread, and join there with {@link LockManager.from}. */
  get handle(): HandleOf<'stripelock/lock-manager'> {
    return handleOf(this.#context.locks.number, this.#context.name);
  }

  /**
   * Calls the function once the lock is granted, in a microtask at the earliest. The lock is held until what it returns
   * settles; then the promise settles in the same way. All errors reject the promise: those of the function; a TypeError,
   * RangeError or DOMException (NotSupportedError) for bad arguments; the reason of the signal; a DOMException named
   * AbortError if the lock is stolen, and TimeoutError if it is not granted in time.
   *
   * A request that waits keeps the event loop of its thread alive.
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

  /**
   * All requests of all threads that are held or pending now. The snapshot is taken before the call returns, and has no
   * part of what happens later.
   */
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
    // The number of arguments that each cannot do without.
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

/** What the engine knows of a request, as the standard shows it. */
function infoOf({ name, mode, threadId }: WebLockState): LockInfo {
  return { name, mode: mode.name, clientId: `node-${process.pid}-${threadId}` };
}

/** One manager for all threads of the process. If the addon cannot be loaded: one for each thread, and a warning. */
export const locks: LockManager = new LockManager(
  new ManagerContext('', () => webLockEngine().open(DEFAULT_MANAGER)),
);
