import { invalidArg } from './errors.js';

/** A guard, which must be released after use. */
interface Held {
  release(): void;
}

/**
 * Runs `fn` with a guard, then releases the guard. While an async function is suspended, its variables are
 * kept in memory, and each resumption copies them. So this function has few variables, and no `finally`,
 * which would add three variables.
 */
export async function runHeld<G extends Held, T>(
  acquired: Promise<G>,
  fn: (guard: G) => T | PromiseLike<T>,
): Promise<T> {
  const guard = await acquired;
  let result: T;
  try {
    result = await fn(guard);
  } catch (error) {
    guard.release();
    throw error;
  }
  guard.release();
  return result;
}

/** The error for a callback of `withLockSync` that returned a promise. */
export function releasedTooEarly(): TypeError {
  return invalidArg(
    'fn returned a promise, and withLockSync released the lock before it settled: use withLock',
  );
}

export function isThenable(value: unknown): boolean {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
