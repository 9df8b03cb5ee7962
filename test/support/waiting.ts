import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

/**
 * Milliseconds that a test waits for an event that must happen. Far longer than it takes, because the machine may be
 * busy.
 */
const PATIENCE = 20_000;

/** Waits until a condition without an event holds, for example that another thread is blocked. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`gave up after ${PATIENCE} ms: waited until ${what}`);
    await delay(1);
  }
}

/** Lets the event loop turn a few times. A wrong grant would be delivered by then. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn();
}

/** A promise whose state can be read. */
export interface Watched<T> {
  readonly promise: Promise<T>;
  state: 'pending' | 'fulfilled' | 'rejected';
  value?: T;
  reason?: unknown;
  /** Milliseconds from watching to settling. */
  after?: number;
}

/** Watches a promise; a rejection then counts as handled. */
export function watch<T>(promise: Promise<T>): Watched<T> {
  const start = performance.now();
  const watched: Watched<T> = { promise, state: 'pending' };
  promise.then(
    (value) => {
      watched.state = 'fulfilled';
      watched.value = value;
      watched.after = performance.now() - start;
    },
    (reason: unknown) => {
      watched.state = 'rejected';
      watched.reason = reason;
      watched.after = performance.now() - start;
    },
  );
  return watched;
}

/** The error that a function throws. Fails if it does not throw. */
export function thrownBy(fn: () => unknown): unknown {
  try {
    fn();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

/** The reason with which a promise is rejected. Fails if it is fulfilled. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('the promise was fulfilled');
}
