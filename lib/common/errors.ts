import { lengthOfBytes } from './bytes.js';
import type { LockKey } from './types.js';

/** The base class of all errors of this package, except for errors about bad arguments. */
export class LockError extends Error {
  /** A stable code that starts with `ERR_`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  static {
    this.prototype.name = 'LockError';
  }
}

/** An acquisition timed out. The acquisition holds nothing. */
export class LockTimeoutError extends LockError {
  /** The timeout in milliseconds. */
  readonly timeout: number;
  /** The keys of the acquisition, as they were at its start. */
  readonly keys: readonly LockKey[];
  /** The stripe for which the acquisition waited when it timed out; -1 for a lease. */
  readonly stripe: number;
  /** Ids of the threads that held that stripe at the timeout, as far as known. */
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

/** The error of `drained` if the lock is still in use at the timeout. */
export function notDrained(name: string, timeout: number, held: number, waiting: number): LockTimeoutError {
  const message = `${lockName(name)} is still in use after ${timeout} ms: ${held} held, ${waiting} waiting`;
  return new LockTimeoutError(message, [], timeout, -1, []);
}

/** The properties of a lock that messages mention. */
interface ShownLock {
  readonly name: string;
  /** Whether each key has a separate stripe. If so, messages do not mention stripes. */
  readonly exact: boolean;
}

/** `thread` is the waiting thread. `details` describes the holders. */
export function lockTimeout(
  lock: ShownLock,
  keys: readonly LockKey[],
  timeout: number,
  stripe: number,
  holders: readonly number[],
  thread: number,
  details?: string,
): LockTimeoutError {
  const held = holders.length > 0 ? [`held by ${details ?? threadNames(holders)}`] : [];
  const facts = (lock.exact ? held : [`stripe ${stripe}`, ...held]).join(', ');
  const what = `could not acquire ${quotedKeys(keys)} within ${timeout} ms`;
  const again = holders.includes(thread)
    ? `. Thread ${thread} is this same one: locks are not reentrant, so code that holds a key cannot acquire it again`
    : '';
  const message = `${lockName(lock.name)}: ${what}${facts === '' ? '' : ` (${facts})`}${again}`;
  return new LockTimeoutError(message, keys, timeout, stripe, holders);
}

/** An acquisition was refused because its wait could never have ended. The acquisition holds nothing. */
export class DeadlockError extends LockError {
  /** The keys of the acquisition, as they were at its start. */
  readonly keys: readonly LockKey[];
  /**
   * Ids of the threads that wait for each other, this thread first. Only this thread's id if this thread
   * would wait for itself.
   */
  readonly threads: readonly number[];
  /** The stripe that each of {@link threads} waits for. */
  readonly stripes: readonly number[];

  constructor(
    message: string,
    keys: readonly LockKey[],
    threads: readonly number[],
    stripes: readonly number[],
  ) {
    super('ERR_LOCK_DEADLOCK', message);
    this.keys = keys;
    this.threads = threads;
    this.stripes = stripes;
  }

  static {
    this.prototype.name = 'DeadlockError';
  }
}

/** `details` describes the holders of the first stripe. */
export function lockDeadlock(
  { name, exact }: ShownLock,
  keys: readonly LockKey[],
  threads: readonly number[],
  stripes: readonly number[],
  details?: string,
): DeadlockError {
  const one = keys.length === 1 ? 'it' : 'one of them';
  const why =
    threads.length === 1
      ? selfText(exact ? one : `stripe ${stripes[0]}`, threads[0]!, details)
      : cycleText(exact, threads, stripes);
  const collision = exact ? '' : ' In a StripedLock, different keys can share a stripe.';
  const message =
    `${lockName(name)}: waiting for ${quotedKeys(keys)} would never end: ${why}.${collision} ` +
    'Acquire all keys that are needed together in one call';
  return new DeadlockError(message, keys, threads, stripes);
}

/** Explains a wait of a thread for itself. `held`: what the thread holds. `details`: where it was acquired. */
export function selfText(
  held: string,
  thread: number,
  details = 'trace: true shows where it was acquired',
): string {
  return (
    `this same thread (${thread}) holds ${held}, by a guard that is not released (${details}), and cannot ` +
    'release it while it is blocked. Locks are not reentrant: pass the guard on instead of acquiring the key again'
  );
}

function cycleText(exact: boolean, threads: readonly number[], stripes: readonly number[]): string {
  const next = (i: number): number => threads[(i + 1) % threads.length]!;
  return threads
    .map(
      (thread, i) =>
        `thread ${thread} waits for ${exact ? '' : `stripe ${stripes[i]}, held by `}thread ${next(i)}`,
    )
    .join(', ');
}

/** The `code` of an error of the system or of a server. Undefined if the error has no code. */
export function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

export function invalidArgType(
  name: string,
  expected: string,
  actual: unknown,
): TypeError & { code: string } {
  return invalidArg(`${name} must be ${expected}; received ${describe(actual)}`);
}

export function invalidArg(message: string): TypeError & { code: string } {
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
}

/** The message for a handle that came from another process. */
export const ONLY_FOR_THREADS =
  'a handle works only in the threads of its process, passed by workerData or postMessage; processes share leases in a store such as sqliteLeaseStore';

export function outOfRange(name: string, expected: string, actual: unknown): RangeError & { code: string } {
  const error = new RangeError(`${name} must be ${expected}; received ${describe(actual)}`);
  return Object.assign(error, { code: 'ERR_OUT_OF_RANGE' });
}

const NAME_CHARACTERS_SHOWN = 64;
/** Messages do not show larger numbers, which have too many digits. */
const LARGEST_BIGINT_SHOWN = 10n ** 64n;

/**
 * Matches the user and password of a URL, and the scheme before them. Messages are logged, so the user and
 * password are masked.
 */
const USER_OF_URL = /^([a-z][a-z\d+.-]*:\/\/)[^/]*@/i;

/** Never throws, because an exception here would hide the error that is being created. */
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
      return quote(value.replace(USER_OF_URL, '$1***@'));
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
  // An object without a prototype has no constructor. In another object, the property `constructor` may have
  // any value.
  const { constructor } = value as { constructor?: unknown };
  return (typeof constructor === 'function' && shortened(constructor.name)) || 'Object';
}

/** Shortens a value that should be a string. */
function shortened(text: unknown): string {
  if (typeof text !== 'string') return '';
  return text.length > NAME_CHARACTERS_SHOWN ? `${text.slice(0, NAME_CHARACTERS_SHOWN)}\u2026` : text;
}

const KEYS_SHOWN = 4;
const KEY_CHARACTERS_SHOWN = 64;
const BYTES_SHOWN = 32;

/** The keys in the form for messages: the first few, each shortened. */
export function quotedKeys(keys: readonly LockKey[]): string {
  const shown = keys.slice(0, KEYS_SHOWN).map(keyName).join(', ');
  const rest = keys.length - KEYS_SHOWN;
  const more = rest > 0 ? ` and ${rest} more` : '';
  return `${keys.length === 1 ? 'key' : 'keys'} ${shown}${more}`;
}

export function keyName(key: LockKey): string {
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

/** The start of every message about a lock. */
export function lockName(name: string): string {
  return name === '' ? 'lock' : `lock ${quote(name)}`;
}

function threadNames(threads: readonly number[]): string {
  return threads.length === 1 ? `thread ${threads[0]}` : `threads ${threads.join(', ')}`;
}
