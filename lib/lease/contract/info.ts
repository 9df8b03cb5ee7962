import { invalidArgType, outOfRange } from '../../common/errors.js';
import { MAX_INFO } from './lease-store.js';

/** The text that a holder keeps with its lease. Empty for none. */
export function checkInfo(info: unknown, name = 'info'): string {
  if (typeof info !== 'string') throw invalidArgType(name, 'a string', info);
  if (info.length > MAX_INFO || Buffer.byteLength(info) > MAX_INFO) {
    throw outOfRange(name, `a string of at most ${MAX_INFO} bytes in UTF-8`, info);
  }
  return info;
}
