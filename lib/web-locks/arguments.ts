import { checkSignal, checkTimeout } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type { HostSignal } from '../common/types.js';
import { notSupported } from './errors.js';
import { EXCLUSIVE_MODE, MODE_NAMES, modeNamed, type Mode } from '../engine/contract/mode.js';

/*
 * Converts the arguments of a request as Web IDL prescribes: the arguments in order, and the members of the
 * options in alphabetical order. Each argument and each member is read once.
 */

/** The converted options of a request. */
export interface RequestOptions {
  readonly mode: Mode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: HostSignal | undefined;
  /** The timeout in milliseconds. */
  readonly timeout: number;
}

export const DEFAULTS: RequestOptions = {
  mode: EXCLUSIVE_MODE,
  ifAvailable: false,
  steal: false,
  signal: undefined,
  timeout: Infinity,
};

/**
 * Converts the options. Throws a TypeError if the value is not an object or a member has a wrong type. Throws
 * a RangeError for an invalid timeout.
 */
export function readOptions(value: unknown): RequestOptions {
  if (value === undefined || value === null) return DEFAULTS;
  if (typeof value !== 'object' && typeof value !== 'function') {
    throw invalidArgType('options', 'an object', value);
  }
  const options = value as Readonly<Record<keyof RequestOptions, unknown>>;
  // The members are read in the order that the standard prescribes.
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

/** Converts a value to a string, which may contain any UTF-16 code units. Throws a TypeError for a symbol. */
export function toDomString(value: unknown, what: string): string {
  if (typeof value === 'symbol') throw invalidArgType(what, 'a string', value);
  return String(value);
}

const HYPHEN = 0x2d;

/** Throws a DOMException named NotSupportedError for combinations that the standard forbids. */
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
