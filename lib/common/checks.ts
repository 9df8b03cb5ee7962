import { invalidArgType, outOfRange } from './errors.js';

/** The default timeout of an acquisition, in milliseconds. */
export const DEFAULT_TIMEOUT = 5000;

export function checkOptionsObject(options: unknown): void {
  if (options !== undefined && (typeof options !== 'object' || options === null || !mayBeOptions(options))) {
    throw invalidArgType('options', 'an object', options);
  }
}

/** False for lists, and for a revoked Proxy, which cannot be read. */
function mayBeOptions(options: object): boolean {
  try {
    return !Array.isArray(options);
  } catch {
    return false;
  }
}

export function checkTimeout(timeout: unknown, name: string): number {
  if (typeof timeout !== 'number') throw invalidArgType(name, 'a number', timeout);
  // Not `timeout < 0`, which NaN would pass.
  if (!(timeout >= 0)) throw outOfRange(name, 'a number of milliseconds from 0 to Infinity', timeout);
  return timeout;
}

export function checkString(value: unknown, name: string): string {
  if (typeof value !== 'string') throw invalidArgType(name, 'a string', value);
  return value;
}

export function checkBoolean(value: unknown, name: string): boolean {
  if (typeof value !== 'boolean') throw invalidArgType(name, 'a boolean', value);
  return value;
}

export function checkSignal(signal: unknown): AbortSignal {
  if (isSignal(signal)) return signal;
  throw invalidArgType('options.signal', 'an AbortSignal', signal);
}

/** Checks only the members that are used, so that it accepts a signal of another realm or implementation (jsdom's). */
function isSignal(signal: unknown): signal is AbortSignal {
  try {
    const { aborted, addEventListener, removeEventListener } = signal as Partial<AbortSignal>;
    return (
      typeof signal === 'object' &&
      typeof aborted === 'boolean' &&
      typeof addEventListener === 'function' &&
      typeof removeEventListener === 'function'
    );
  } catch (error) {
    // A stack overflow in a getter, which says nothing of the signal.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

export function checkFunction(fn: unknown, name: string): void {
  if (typeof fn !== 'function') throw invalidArgType(name, 'a function', fn);
}

/** The arguments of a function that takes options, which may be left out, and then a function. */
export function callArguments<O, F>(optionsOrFn: O | F, maybeFn: F | undefined): [O | undefined, F] {
  const withoutOptions = typeof optionsOrFn === 'function' && maybeFn === undefined;
  const fn = withoutOptions ? optionsOrFn : maybeFn;
  checkFunction(fn, 'fn');
  return [withoutOptions ? undefined : (optionsOrFn as O), fn as F];
}
