import { invalidArgType, LockError, ONLY_FOR_THREADS, outOfRange } from '../common/errors.js';
import { checkString } from '../common/checks.js';
import type { EngineName } from '../engine/contract/engine.js';
import type { WebLocks } from '../engine/contract/web-locks.js';
import { webLockEngine } from '../engine/select.js';

const KIND = 'stripelock/lock-manager';

/** The fields of a manager's handle. */
interface HandleFields {
  readonly kind: typeof KIND;
  readonly engine: EngineName;
  readonly id: readonly [number, number];
  readonly number: number;
  readonly name: string;
}

/** The handle of a manager that was opened in this thread. */
export function handleOf(number: number, name: string): { readonly kind: typeof KIND } {
  const { name: engine, id } = webLockEngine();
  return Object.freeze<HandleFields>({ kind: KIND, engine, id, number, name });
}

/**
 * Opens the manager of a handle. Throws a TypeError or RangeError for a value that is not a handle, and a
 * LockError if this thread cannot open it.
 */
export function openHandle(handle: unknown): { locks: WebLocks; name: string } {
  if (typeof handle !== 'object' || handle === null || (handle as Partial<HandleFields>).kind !== KIND) {
    throw invalidArgType('handle', 'the handle of a LockManager', handle);
  }
  const { engine, id, number, name } = handle as HandleFields;
  if (!Array.isArray(id)) throw invalidArgType('handle.id', 'an array', id);
  if (typeof number !== 'number') throw invalidArgType('handle.number', 'a number', number);
  if (!Number.isSafeInteger(number) || number < 0) {
    throw outOfRange('handle.number', 'an integer from 0', number);
  }
  const shownName = checkString(name, 'handle.name');
  const here = webLockEngine();
  if (engine === here.name && id[0] === here.id[0] && id[1] === here.id[1]) {
    return { locks: here.open(number), name: shownName };
  }
  throw new LockError(
    'ERR_LOCK_ENGINE',
    here.name === 'native' && engine === 'native'
      ? `the handle was made in another process, or by another copy of the stripelock addon: ${ONLY_FOR_THREADS}`
      : 'web locks are shared between threads by the native engine only, and its addon could not be loaded here or where the handle was made; the warning STRIPELOCK_NO_ADDON says why, and how to compile it',
  );
}
