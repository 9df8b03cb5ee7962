import { types } from 'node:util';
import { DeadlockError, LockError, LockTimeoutError } from '../../common/errors.js';
import { LeaseLostError, LeaseStoreError, StaleTokenError } from './errors.js';

const CLASSES: Readonly<Record<string, { readonly prototype: Error }>> = {
  LockError,
  LockTimeoutError,
  DeadlockError,
  LeaseLostError,
  LeaseStoreError,
  StaleTokenError,
  TypeError,
  RangeError,
};

/** At most this many causes of an error are converted. A longer chain may contain a cycle. */
const MOST_CAUSES = 16;

const KIND = 'stripelock/error';

interface SentError {
  readonly kind: typeof KIND;
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly fields: object;
  readonly cause?: unknown;
}

/**
 * Converts an error to an object that can be posted to another thread, where {@link deserializeError}
 * converts it back. Structured clone alone loses the class of the error and its `code`. A value that is not
 * an error is returned unchanged.
 */
export function serializeError(error: unknown): unknown {
  return sent(error, 0);
}

function sent(error: unknown, depth: number): unknown {
  if (!isError(error) || depth > MOST_CAUSES) return error;
  const { name, message, stack } = error;
  // `Object.keys` does not include the `code` of a DOMException, because that property is inherited.
  const names = ['code', ...Object.keys(error)].filter((field) => field in error);
  const fields = Object.fromEntries(names.map((field) => [field, cloneable(Reflect.get(error, field))]));
  const plain: SentError = { kind: KIND, name, message, stack, fields };
  return 'cause' in error ? { ...plain, cause: cloneable(sent(error.cause, depth + 1)) } : plain;
}

/**
 * Whether the value is an error. Also true for an error of another realm, and for a DOMException, which must
 * be converted because Node 20 cannot clone it.
 */
function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error;
}

/**
 * Returns the value if it can be posted to another thread; otherwise returns the value's text.
 * Libraries can throw errors with fields of any type. A field that cannot be posted must not prevent
 * the other fields from being posted.
 */
function cloneable(value: unknown): unknown {
  try {
    structuredClone(value);
    return value;
  } catch {
    return String(value);
  }
}

/**
 * Converts the result of {@link serializeError} back to an error in this thread. `instanceof`, `code`, keys,
 * numbers, `stack` and `cause` are the same as in the original error. If the error's class is not in
 * `CLASSES`, the result is an `Error` with the name of that class. A value that `serializeError` did not
 * convert is returned unchanged.
 */
export function deserializeError(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || (value as { kind?: unknown }).kind !== KIND)
    return value;
  const { name, message, stack, fields, ...rest } = value as SentError;
  const error = new Error(message, 'cause' in rest ? { cause: deserializeError(rest.cause) } : undefined);
  const known = CLASSES[name];
  if (known !== undefined) Object.setPrototypeOf(error, known.prototype);
  const hidden = { name: known === undefined ? name : undefined, stack };
  for (const [property, text] of Object.entries(hidden)) {
    if (text === undefined) continue;
    Object.defineProperty(error, property, { value: text, writable: true, configurable: true });
  }
  return Object.assign(error, fields);
}
