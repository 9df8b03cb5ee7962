import {
  checkBoolean,
  checkOptionsObject,
  checkSignal,
  checkString,
  checkTimeout,
  DEFAULT_TIMEOUT,
} from '../common/checks.js';
import { invalidArgType, outOfRange } from '../common/errors.js';
import type {
  AcquireOptions,
  AsyncAcquireOptions,
  KeyedLockOptions,
  StripedLockOptions,
} from '../common/types.js';
import { MAX_STRIPES } from '../engine/contract/layout.js';
import { EXCLUSIVE_MODE, MODE_NAMES, modeNamed, type Mode } from '../engine/contract/mode.js';

const DEFAULT_STRIPES = 1024;
const DEFAULT_CAPACITY = 65_536;

/** What the options of both classes have. */
export interface ResolvedLockOptions {
  readonly stripes: number;
  readonly timeout: number;
  readonly name: string;
  readonly engine: 'native' | 'javascript' | undefined;
  readonly trace: boolean;
}

export function resolveLockOptions(options: StripedLockOptions | undefined): ResolvedLockOptions {
  checkOptionsObject(options);
  const { stripes } = options ?? {};
  const count = stripes === undefined ? DEFAULT_STRIPES : checkStripes(stripes, 'options.stripes');
  return resolveWith(count, options);
}

/** The number of stripes is the capacity: each key in use has one. */
export function resolveKeyedLockOptions(options: KeyedLockOptions | undefined): ResolvedLockOptions {
  checkOptionsObject(options);
  const { capacity } = options ?? {};
  const count = capacity === undefined ? DEFAULT_CAPACITY : checkStripes(capacity, 'options.capacity');
  return resolveWith(count, options);
}

function resolveWith(
  stripes: number,
  options: StripedLockOptions | KeyedLockOptions | undefined,
): ResolvedLockOptions {
  const { timeout, name, engine, trace } = options ?? {};
  return {
    stripes,
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    name: name === undefined ? '' : checkString(name, 'options.name'),
    engine: engine === undefined ? undefined : checkEngine(engine),
    trace: trace === undefined ? false : checkBoolean(trace, 'options.trace'),
  };
}

export function checkStripes(stripes: unknown, name: string): number {
  if (typeof stripes !== 'number') throw invalidArgType(name, 'a number', stripes);
  if (!Number.isInteger(stripes) || stripes < 1 || stripes > MAX_STRIPES) {
    throw outOfRange(name, `an integer from 1 to ${MAX_STRIPES}`, stripes);
  }
  return stripes;
}

/** The mode that an acquisition asks for. */
export function modeIn(options: AcquireOptions | undefined): Mode {
  if (options === undefined) return EXCLUSIVE_MODE;
  checkOptionsObject(options);
  const { mode } = options;
  return mode === undefined ? EXCLUSIVE_MODE : (modeNamed(mode) ?? refuseMode(mode));
}

function refuseMode(name: unknown): never {
  throw invalidArgType('options.mode', MODE_NAMES.map((known) => `'${known}'`).join(' or '), name);
}

/** The timeout of an acquisition, in milliseconds. Here and below, the options are already known to be an object. */
export function timeoutIn(options: AcquireOptions | undefined, usual: number): number {
  const timeout = options?.timeout;
  return timeout === undefined ? usual : checkTimeout(timeout, 'options.timeout');
}

export function signalIn(options: AsyncAcquireOptions | undefined): AbortSignal | undefined {
  const signal = options?.signal;
  return signal === undefined ? undefined : checkSignal(signal);
}

function checkEngine(engine: unknown): 'native' | 'javascript' {
  if (engine === 'native' || engine === 'javascript') return engine;
  throw invalidArgType('options.engine', "'native' or 'javascript'", engine);
}
