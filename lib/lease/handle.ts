import { invalidArgType, LockError, ONLY_FOR_THREADS, outOfRange } from '../common/errors.js';
import { leaseEngine } from '../engine/select.js';

/** The fields of a handle by which another thread opens the same lease table or gate. */
export interface HandleFields {
  readonly kind: string;
  readonly engine: 'native' | 'javascript';
  readonly id: readonly [number, number];
  readonly number: number;
}

/** Returns the handle. Throws a TypeError for any value that is not a handle of this kind. */
export function checkHandle(handle: unknown, kind: string, expected: string): HandleFields {
  if (typeof handle !== 'object' || handle === null || (handle as Partial<HandleFields>).kind !== kind) {
    throw invalidArgType('handle', expected, handle);
  }
  return handle as HandleFields;
}

/**
 * Returns the number of the table or gate in this thread's engine. Throws a LockError if another engine
 * created the handle.
 */
export function numberOf({ engine, id, number }: HandleFields): number {
  const here = leaseEngine();
  if (!Array.isArray(id)) throw invalidArgType('handle.id', 'an array', id);
  if (typeof number !== 'number') throw invalidArgType('handle.number', 'a number', number);
  if (!Number.isSafeInteger(number) || number < 1)
    throw outOfRange('handle.number', 'a positive integer', number);
  if (engine === here.name && id[0] === here.id[0] && id[1] === here.id[1]) return number;
  throw new LockError(
    'ERR_LOCK_ENGINE',
    here.name === 'native' && engine === 'native'
      ? `the handle was made in another process, or by another copy of the stripelock addon: ${ONLY_FOR_THREADS}`
      : 'leases are shared between threads by the native addon only, and it could not be loaded here or where the handle was made',
  );
}
