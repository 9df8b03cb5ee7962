import { lengthOfBytes } from './bytes.js';
import type { LockKey } from './types.js';

/** Base of all errors of this package, except for bad arguments. */
export class LockError extends Error {
  /** Stable; starts with `ERR_`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  static {
    this.prototype.name = 'LockError';
  }
}

/** An acquisition ran out of time. Nothing is held. */
export class LockTimeoutError extends LockError {
  /** The time allowed, in milliseconds. */
  readonly timeout: number;
  /** The keys of the acquisition, as they were when it began. */
  readonly keys: readonly LockKey[];
  /** The stripe that was not free in time; -1 for a lease. */
  readonly stripe: number;
  /** Ids of the threads that held that stripe when time ran out, as far as known. */
  readonly holders: readonly number[];

  constructor(
    message: string,
    keys: readonly LockKey[],
    timeout: number,
    stripe: number,
    holders: readonly number[],
    options?: ErrorOptions,
  ) {
    super('ERR_LOCK_TIMEOUT', message, options);
    this.timeout = timeout;
    this.keys = keys;
    this.stripe = stripe;
    this.holders = holders;
  }

  static {
    this.prototype.name = 'LockTimeoutError';
  }
}

/** `details`: what the message says about the holders. */
export function lockTimeout(
  lock: string,
  keys: readonly LockKey[],
  timeout: number,
  stripe: number,
  holders: readonly number[],
  details?: string,
): LockTimeoutError {
  const held = holders.length > 0 ? `, held by ${details ?? threadNames(holders)}` : '';
  const message = `${lockName(lock)}: could not acquire ${keyNames(keys)} within ${timeout} ms (stripe ${stripe}${held})`;
  return new LockTimeoutError(message, keys, timeout, stripe, holders);
}

/** An acquisition was refused, because its wait could never have ended. Nothing of it is held. */
export class DeadlockError extends LockError {
  /** The keys of the acquisition, as they were when it began. */
  readonly keys: readonly LockKey[];
  /** Ids of the threads that wait for each other, this one first. Only this one if it would wait for itself. */
  readonly threads: readonly number[];
  /** What each of {@link threads} waits for. */
  readonly stripes: readonly number[];

  constructor(
    lock: string,
    keys: readonly LockKey[],
    threads: readonly number[],
    stripes: readonly number[],
  ) {
    super('ERR_LOCK_DEADLOCK', `${lockName(lock)}: ${deadlockText(keys, threads, stripes)}`);
    this.keys = keys;
    this.threads = threads;
    this.stripes = stripes;
  }

  static {
    this.prototype.name = 'DeadlockError';
  }
}

function deadlockText(
  keys: readonly LockKey[],
  threads: readonly number[],
  stripes: readonly number[],
): string {
  const advice =
    'In a StripedLock, different keys can share a stripe. Acquire all keys that are needed together in one call';
  if (threads.length === 1) {
    return (
      `waiting for ${keyNames(keys)} would never end: this thread (${threads[0]}) itself holds stripe ` +
      `${stripes[0]}, and cannot release it while it is blocked. ${advice}, or use acquire() instead of acquireSync()`
    );
  }
  const cycle = threads.map((thread, i) => `thread ${thread} waits for stripe ${stripes[i]}`).join(', ');
  return `waiting for ${keyNames(keys)} would never end: ${cycle}, each held by the next. ${advice}`;
}

export function invalidArgType(
  name: string,
  expected: string,
  actual: unknown,
): TypeError & { code: string } {
  const error = new TypeError(`${name} must be ${expected}; received ${describe(actual)}`);
  return Object.assign(error, { code: 'ERR_INVALID_ARG_TYPE' });
}

export function outOfRange(name: string, expected: string, actual: unknown): RangeError & { code: string } {
  const error = new RangeError(`${name} must be ${expected}; received ${describe(actual)}`);
  return Object.assign(error, { code: 'ERR_OUT_OF_RANGE' });
}

const NAME_CHARACTERS_SHOWN = 64;
/** Larger numbers have more digits than a message should show. */
const LARGEST_BIGINT_SHOWN = 10n ** 64n;

/** Never throws, whatever the value is: otherwise this failure would hide the error that is being made. */
function describe(value: unknown): string {
  try {
    return descriptionOf(value);
  } catch {
    return typeof value === 'function' ? 'function' : 'an object';
  }
}

function descriptionOf(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'function':
      return `function ${shortened(value.name)}`.trimEnd();
    case 'object':
      return value === null ? 'null' : `an instance of ${constructorName(value)}`;
    case 'bigint':
      return value < LARGEST_BIGINT_SHOWN && -value < LARGEST_BIGINT_SHOWN ? `${value}n` : 'a large bigint';
    case 'symbol':
      return `Symbol(${shortened(value.description ?? '')})`;
    default:
      return String(value);
  }
}

function constructorName(value: object): string {
  // Objects without a prototype have no constructor; others may have anything under that name.
  const { constructor } = value as { constructor?: unknown };
  return (typeof constructor === 'function' && shortened(constructor.name)) || 'Object';
}

/** For a value that should be a string. */
function shortened(text: unknown): string {
  if (typeof text !== 'string') return '';
  return text.length > NAME_CHARACTERS_SHOWN ? `${text.slice(0, NAME_CHARACTERS_SHOWN)}\u2026` : text;
}

const KEYS_SHOWN = 4;
const KEY_CHARACTERS_SHOWN = 64;
const BYTES_SHOWN = 32;

/** Keys as messages show them: a few, and each of them short. */
export function keyNames(keys: readonly LockKey[]): string {
  const shown = keys.slice(0, KEYS_SHOWN).map(keyName).join(', ');
  const rest = keys.length - KEYS_SHOWN;
  const more = rest > 0 ? ` and ${rest} more` : '';
  return `${keys.length === 1 ? 'key' : 'keys'} ${shown}${more}`;
}

function keyName(key: LockKey): string {
  if (typeof key === 'string') return quote(key);
  if (typeof key === 'number') return String(key);
  const length = lengthOfBytes(key);
  let hex = '';
  for (let i = 0; i < length && i < BYTES_SHOWN; i++) hex += key[i]!.toString(16).padStart(2, '0');
  return `<${hex}${length > BYTES_SHOWN ? '\u2026' : ''}>`;
}

function quote(text: string): string {
  const shown = text.length > KEY_CHARACTERS_SHOWN ? `${text.slice(0, KEY_CHARACTERS_SHOWN)}\u2026` : text;
  return JSON.stringify(shown);
}

function lockName(name: string): string {
  return name === '' ? 'lock' : `lock ${quote(name)}`;
}

function threadNames(threads: readonly number[]): string {
  return threads.length === 1 ? `thread ${threads[0]}` : `threads ${threads.join(', ')}`;
}
