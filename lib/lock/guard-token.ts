import { LockError } from '../common/errors.js';
import { FastPath } from '../engine/fast-path.js';

/** By guard. Most tokens are never asked for, so a guard has no field for its own. */
const tokens = new WeakMap<object, bigint>();

/** The guard's fencing token, which the first call assigns. */
export function tokenOf(guard: { readonly held: boolean }, path: FastPath): bigint {
  let token = tokens.get(guard);
  if (token === undefined) {
    if (!guard.held) {
      throw new LockError('ERR_LOCK_NOT_HELD', 'a token must be read first while the guard is held');
    }
    token = FastPath.nextToken(path);
    tokens.set(guard, token);
  }
  return token;
}
