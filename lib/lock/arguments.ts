import type { LockKey } from '../common/types.js';

/** `Array.isArray` for read-only lists. False for a revoked Proxy, for which that throws. */
export function isList<K extends LockKey>(keys: K | readonly K[]): keys is readonly K[] {
  try {
    return Array.isArray(keys);
  } catch {
    return false;
  }
}

export function isThenable(value: unknown): boolean {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
