import {
  checkCount,
  checkFunction,
  checkPart,
  checkSignal,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../common/checks.js';
import { invalidArgType, outOfRange } from '../common/errors.js';
import type { HostSignal } from '../common/types.js';
import { ProcessLock } from '../process/process-lock.js';
import { parseJson, stringifyJson, textFormat, type FileFormat } from './formats.js';

/** Options of `new LockedFile(path, options)`. */
export interface LockedFileOptions<T> {
  /** Converts the file's text to a value. Default: JSON.parse. */
  parse?: (text: string) => T;
  /**
   * Converts a value to the file's text. Default: JSON.stringify with an indentation of two
   * spaces, and a newline at the end.
   */
  stringify?: (value: T) => string;
  /**
   * The value if the file does not exist, or a function that returns this value.
   * Default: a missing file is an error.
   */
  initial?: T | (() => T);
  /**
   * Permissions of a new file. The process's umask is removed from them, as in `fs.open`. An existing file
   * keeps its permissions. Default 0o666.
   */
  mode?: number;
  /** The maximum size of a file that is read or written, in bytes. Default 67_108_864 (64 MiB). */
  maxBytes?: number;
  /**
   * Milliseconds to wait for the lock. The same time is allowed again for each operation that the system
   * refuses because another program has a file open. Default 5000. Infinity waits forever.
   */
  timeout?: number;
  /** Aborting ends the wait for the lock and rejects with signal.reason. */
  signal?: HostSignal;
  /**
   * A lock to use instead of a separate lock file. The key is the file's path. The lock's limit must be 1.
   * Default: a separate lock file, `path` with `.lock` at its end.
   */
  lock?: ProcessLock;
}

/** Options of `LockedFile.text` and `LockedFile.bytes`. */
export type LockedRawFileOptions<T> = Omit<LockedFileOptions<T>, 'parse' | 'stringify'>;

/** Options of one `update`. */
export interface LockedFileUpdateOptions {
  /** Milliseconds to wait for the lock. Default: the `timeout` of the `LockedFile`. */
  timeout?: number;
  /**
   * Aborting ends the wait for the lock and rejects with signal.reason. Default:
   * the `signal` of the `LockedFile`.
   */
  signal?: HostSignal;
}

const MEBIBYTE = 2 ** 20;
const DEFAULT_MAX_BYTES = 64 * MEBIBYTE;
/** The maximum size, in bytes, of a file that Node can read in one call. */
const MOST_BYTES = 2 ** 31 - 1;
const MOST_MODE = 0o7777;
const DEFAULT_MODE = 0o666;

const RAW_NAMES: Names<LockedRawFileOptions<unknown>> = {
  initial: true,
  mode: true,
  maxBytes: true,
  timeout: true,
  signal: true,
  lock: true,
};
const NAMES: Names<LockedFileOptions<unknown>> = { parse: true, stringify: true, ...RAW_NAMES };
const UPDATE_NAMES: Names<LockedFileUpdateOptions> = { timeout: true, signal: true };

/** The limits of a wait for locks. */
export interface Waiting {
  /** The time to wait, in milliseconds. */
  readonly timeout: number;
  readonly signal: HostSignal | undefined;
}

/** The checked options, with defaults filled in. */
export interface FileSettings<T> extends Waiting {
  readonly format: FileFormat<T>;
  /** Returns the value of a missing file. Undefined if a missing file is an error. */
  readonly initial: (() => T) | undefined;
  readonly mode: number;
  readonly maxBytes: number;
  readonly lock: ProcessLock | undefined;
}

/**
 * Checks the options. `raw`: the format of a file without `parse` and `stringify`. Throws a TypeError
 * or RangeError for bad options.
 */
export function resolveFileOptions<T>(options: LockedFileOptions<T>, raw?: FileFormat<T>): FileSettings<T> {
  checkPart(options, raw === undefined ? NAMES : RAW_NAMES, 'options');
  const {
    mode = DEFAULT_MODE,
    maxBytes = DEFAULT_MAX_BYTES,
    timeout = DEFAULT_TIMEOUT,
    signal,
    lock,
  } = options;
  const format = raw ?? formatOf(options);
  if (typeof mode !== 'number') throw invalidArgType('options.mode', 'a number', mode);
  if (!Number.isInteger(mode) || mode < 0 || mode > MOST_MODE) {
    throw outOfRange('options.mode', 'an integer from 0 to 0o7777', mode);
  }
  if (lock !== undefined && !(lock instanceof ProcessLock)) {
    throw invalidArgType('options.lock', 'a ProcessLock', lock);
  }
  if (lock !== undefined && lock.limit !== 1) {
    throw outOfRange('options.lock.limit', '1, so that updates exclude each other', lock.limit);
  }
  return {
    format,
    initial: initialOf(options, format),
    mode,
    maxBytes: checkCount(maxBytes, 'options.maxBytes', MOST_BYTES),
    timeout: checkTimeout(timeout, 'options.timeout'),
    signal: signal === undefined ? undefined : checkSignal(signal),
    lock,
  };
}

/** Checks the options of an update. Throws a TypeError or RangeError for bad options. */
export function resolveUpdateOptions(
  options: LockedFileUpdateOptions | undefined,
  { timeout, signal }: Waiting,
): Waiting {
  if (options === undefined) return { timeout, signal };
  checkPart(options, UPDATE_NAMES, 'options');
  return {
    timeout: options.timeout === undefined ? timeout : checkTimeout(options.timeout, 'options.timeout'),
    signal: options.signal === undefined ? signal : checkSignal(options.signal),
  };
}

function formatOf<T>({ parse = parseJson, stringify = stringifyJson }: LockedFileOptions<T>): FileFormat<T> {
  checkFunction(parse, 'options.parse');
  checkFunction(stringify, 'options.stringify');
  return textFormat(parse, stringify);
}

/**
 * The function that returns the initial value. A value that is not a function is copied for each call, by
 * encoding and decoding it, so that no update changes the caller's object.
 */
function initialOf<T>({ initial }: LockedFileOptions<T>, format: FileFormat<T>): (() => T) | undefined {
  if (initial === undefined) return undefined;
  if (typeof initial === 'function') return initial as () => T;
  const bytes = format.encode(initial, 'options.initial');
  return () => format.decode(bytes, 'options.initial');
}
