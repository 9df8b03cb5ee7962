import { checkSignal, checkTimeout } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type { HostSignal } from '../common/types.js';
import { notSupported } from './errors.js';
import { EXCLUSIVE_MODE, MODE_NAMES, modeNamed, type Mode } from '../engine/contract/mode.js';

/*
 * The arguments of a request, converted as Web IDL says: in their order, and the members of the options in the order of
 * their names. Each is read once.
 */

/** The options of a request, converted. */
export interface RequestOptions {
  readonly mode: Mode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: HostSignal | undefined;
  /** Milliseconds. */
  readonly timeout: number;
}

export const DEFAULTS: RequestOptions = {
  mode: EXCLUSIVE_MODE,
  ifAvailable: false,
  steal: false,
  signal: undefined,
  timeout: Infinity,
};

/** Throws a TypeError for what is no object, or has a member of a wrong type; a RangeError for a wrong timeout. */
export function readOptions(value: unknown): RequestOptions {
  if (value === undefined || value === null) return DEFAULTS;
  if (typeof value !== 'object' && typeof value !== 'function') {
    throw invalidArgType('options', 'an object', value);
  }
  const options = value as Readonly<Record<keyof RequestOptions, unknown>>;
  // The standard says in which order.
  const ifAvailable = Boolean(options.ifAvailable);
  const { mode: givenMode } = options;
  const mode = givenMode === undefined ? EXCLUSIVE_MODE : toMode(givenMode);
  const { signal: givenSignal } = options;
  const signal = givenSignal === undefined ? undefined : checkSignal(givenSignal);
  const steal = Boolean(options.steal);
  const { timeout: givenTimeout } = options;
  const timeout = givenTimeout === undefined ? Infinity : checkTimeout(givenTimeout, 'options.timeout');
  return { mode, ifAvailable, steal, signal, timeout };
}

function toMode(value: unknown): Mode {
  const mode = modeNamed(typeof value === 'string' ? value : toDomString(value, 'options.mode'));
  if (mode !== undefined) return mode;
  throw invalidArgType('options.mode', MODE_NAMES.map((name) => `'${name}'`).join(' or '), value);
}

/** A string of UTF-16 units, whatever they are. Throws a TypeError for a symbol. */
export function toDomString(value: unknown, what: string): string {
  if (typeof value === 'symbol') throw invalidArgType(what, 'a string', value);
  return String(value);
}

const HYPHEN = 0x2d;

/** Throws a DOMException named NotSupportedError for what the standard rules out. */
export function checkSupported(name: string, options: RequestOptions): void {
  if (name.charCodeAt(0) === HYPHEN) throw notSupported("names that begin with '-' are reserved");
  if (options === DEFAULTS) return;
  const { mode, ifAvailable, steal, signal, timeout } = options;
  if (steal && ifAvailable) throw notSupported("'steal' and 'ifAvailable' cannot be combined");
  if (steal && mode.counted) throw notSupported("'steal' needs the mode 'exclusive'");
  if (!steal && !ifAvailable) return;
  const how = steal ? 'steal' : 'ifAvailable';
  if (signal !== undefined)
    throw notSupported(`'signal' cannot be combined with '${how}', which does not wait`);
  if (timeout !== Infinity)
    throw notSupported(`'timeout' cannot be combined with '${how}', which does not wait`);
}
