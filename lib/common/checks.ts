import { invalidArg, invalidArgType, outOfRange } from './errors.js';

/** The default timeout of an acquisition, in milliseconds. */
export const DEFAULT_TIMEOUT = 5000;

/** An object that has the names of a type's options as its keys. */
export type Names<O> = Readonly<Record<keyof O, true>>;

/**
 * Checks that `options` is an object or undefined. If `names` is given, its keys are the only allowed
 * options.
 */
export function checkOptionsObject(options: unknown, names?: object): void {
  if (options === undefined) return;
  if (typeof options !== 'object' || options === null || !mayBeOptions(options)) {
    throw invalidArgType('options', 'an object', options);
  }
  if (names !== undefined) checkNames(options, names);
}

/** Throws for an unknown option, because the name is probably misspelt. */
export function checkNames(options: object, names: object, what = 'options'): void {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(names, name)) throw unknownOption(what, name, Object.keys(names));
  }
}

/** Checks an option whose value is itself an object of options. */
export function checkPart(part: unknown, names: object, what: string, expected = 'an object'): void {
  if (typeof part !== 'object' || part === null || Array.isArray(part))
    throw invalidArgType(what, expected, part);
  checkNames(part, names, what);
}

const NAME_CHARACTERS_SHOWN = 64;

function unknownOption(what: string, given: string, known: readonly string[]): Error {
  const name = given.slice(0, NAME_CHARACTERS_SHOWN);
  const [nearest] = known
    .map((candidate) => ({ candidate, distance: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= 0.4 * candidate.length || name.startsWith(candidate))
    .sort((a, b) => a.distance - b.distance);
  const hint = nearest ? `did you mean ${what}.${nearest.candidate}?` : `the options are ${known.join(', ')}`;
  return invalidArg(`${what}.${name} is not an option: ${hint}`);
}

/** The Levenshtein distance between two strings. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      next.push(Math.min(row[j]! + (a[i] === b[j] ? 0 : 1), row[j + 1]! + 1, next[j]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** False for arrays, and for a revoked Proxy, which cannot be read. */
function mayBeOptions(options: object): boolean {
  try {
    return !Array.isArray(options);
  } catch {
    return false;
  }
}

export function checkTimeout(timeout: unknown, name: string): number {
  if (typeof timeout !== 'number') throw invalidArgType(name, 'a number', timeout);
  // `timeout < 0` would accept NaN.
  if (!(timeout >= 0)) throw outOfRange(name, 'a number of milliseconds from 0 to Infinity', timeout);
  return timeout;
}

/** Accepts integers from 1 to `most`. */
export function checkCount(count: unknown, name: string, most: number): number {
  if (typeof count !== 'number') throw invalidArgType(name, 'a number', count);
  if (!Number.isInteger(count) || count < 1 || count > most) {
    throw outOfRange(name, `an integer from 1 to ${most}`, count);
  }
  return count;
}

export function checkString(value: unknown, name: string): string {
  if (typeof value !== 'string') throw invalidArgType(name, 'a string', value);
  return value;
}

/** Accepts text that can be a path. `expected`: the requirement in the error message. */
export function checkPath(value: unknown, name: string, expected: string): string {
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return value;
  throw invalidArgType(name, expected, value);
}

export function checkBoolean(value: unknown, name: string): boolean {
  if (typeof value !== 'boolean') throw invalidArgType(name, 'a boolean', value);
  return value;
}

export function checkSignal(signal: unknown): AbortSignal {
  if (isSignal(signal)) return signal;
  throw invalidArgType('options.signal', 'an AbortSignal', signal);
}

/**
 * Checks only the members that the package uses. So signals of other realms and of other implementations
 * (jsdom) are accepted.
 */
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
    // A stack overflow in a getter does not prove that the value is not a signal.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

export function checkFunction(fn: unknown, name: string): void {
  if (typeof fn !== 'function') throw invalidArgType(name, 'a function', fn);
}

/** Resolves the arguments of a function whose first parameter, the options, may be left out. */
export function callArguments<O, F>(optionsOrFn: O | F, maybeFn: F | undefined): [O | undefined, F] {
  const withoutOptions = typeof optionsOrFn === 'function' && maybeFn === undefined;
  const fn = withoutOptions ? optionsOrFn : maybeFn;
  checkFunction(fn, 'fn');
  return [withoutOptions ? undefined : (optionsOrFn as O), fn as F];
}
