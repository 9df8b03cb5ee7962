import { isBytes } from '../common/bytes.js';
import { invalidArgType, outOfRange } from '../common/errors.js';

/** Longer strings are not remembered, so that a cache stays below a few megabytes. */
const REMEMBERED_LENGTH = 256;

/** Whether a thread may remember a key. Throws for what is not a key. Not bytes, as they can be written to. */
export function isRememberable(key: unknown, name: string): boolean {
  if (typeof key === 'string') return key.length <= REMEMBERED_LENGTH;
  if (typeof key === 'number') {
    if (!Number.isSafeInteger(key)) throw outOfRange(name, 'a safe integer', key);
    return true;
  }
  if (isBytes(key)) return false;
  throw invalidArgType(name, 'a string, a safe integer or a Uint8Array', key);
}
