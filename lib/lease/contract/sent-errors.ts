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

/** More causes than this are a cycle. */
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
 * An error as it can be posted to another thread, where {@link deserializeError} makes it an error again. Structured clone by
 * itself keeps neither its class nor its `code`. A value that is not an error is returned as it is.
 */
export function serializeError(error: unknown): unknown {
  return sent(error, 0);
}

function sent(error: unknown, depth: number): unknown {
  if (!isError(error) || depth > MOST_CAUSES) return error;
  const { name, message, stack } = error;
  // A DOMException inherits its code.
  const names = ['code', ...Object.keys(error)].filter((field) => field in error);
  const fields = Object.fromEntries(names.map((field) => [field, cloneable(Reflect.get(error, field))]));
  const plain: SentError = { kind: KIND, name, message, stack, fields };
  return 'cause' in error ? { ...plain, cause: cloneable(sent(error.cause, depth + 1)) } : plain;
}

/** Includes errors of another realm, and a DOMException, which Node 20 does not clone. */
function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error;
}

/** A store's library may throw any value. A field that cannot be posted becomes text, so that the other fields can be posted. */
function cloneable(value: unknown): unknown {
  try {
    structuredClone(value);
    return value;
  } catch {
    return String(value);
  }
}

/**
 * The error that {@link serializeError} was given, in this thread: `instanceof`, `code`, keys, numbers, `stack` and `cause` are
 * as they were. An error of a class that is not of this package or of the language becomes an `Error` of that name. Any other
 * value is returned as it is.
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
