import { checkFunction } from '../common/checks.js';
import type { LockKey } from '../common/types.js';

/** `Array.isArray` for read-only lists. False for a revoked Proxy, for which that throws. */
export function isList<K extends LockKey>(keys: K | readonly K[]): keys is readonly K[] {
  try {
    return Array.isArray(keys);
  } catch {
    return false;
  }
}

/** The arguments of `withLock`, whose options may be left out. */
export function callArguments<O, F>(optionsOrFn: O | F, maybeFn: F | undefined): [O | undefined, F] {
  const withoutOptions = typeof optionsOrFn === 'function' && maybeFn === undefined;
  const fn = withoutOptions ? optionsOrFn : maybeFn;
  checkFunction(fn, 'fn');
  return [withoutOptions ? undefined : (optionsOrFn as O), fn as F];
}

export function isThenable(value: unknown): boolean {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
