/**
 * The stack of a call. It is formatted when `stack` is first read, which takes ten times as long as capturing it. It is
 * not a string if a program replaces `Error.prepareStackTrace`.
 */
export interface CapturedStack {
  readonly stack?: unknown;
}

/** Captures up to `frames` frames, from here or above the function `above`, without formatting them. */
export function captureStack(frames: number, above?: (...args: never[]) => unknown): CapturedStack {
  const { stackTraceLimit } = Error;
  // Not by assignment, which throws if `Error` is frozen (`--frozen-intrinsics`).
  const limited = Reflect.set(Error, 'stackTraceLimit', frames);
  try {
    const target: CapturedStack = {};
    Error.captureStackTrace(target, above);
    return target;
  } finally {
    if (limited) Error.stackTraceLimit = stackTraceLimit;
  }
}

/** The frames, innermost first. Empty if the stack is not a string. */
export function framesOf({ stack }: CapturedStack): string[] {
  if (typeof stack !== 'string') return [];
  return stack
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
}

/**
 * The frames of the program that called the package. `Error.prepareStackTrace` is removed temporarily, so that no code
 * of the program runs. Node's frames are omitted, and so are the package's frames up to the caller.
 */
export function callersOf(captured: CapturedStack): string[] {
  const prepare: unknown = Reflect.get(Error, 'prepareStackTrace');
  const replaced = prepare !== undefined;
  if (replaced && !Reflect.set(Error, 'prepareStackTrace', undefined)) return [];
  let frames: string[];
  try {
    frames = framesOf(captured).filter((frame) => !frame.includes('node:'));
  } finally {
    if (replaced) Reflect.set(Error, 'prepareStackTrace', prepare);
  }
  const first = frames.findIndex((frame) => !isOwn(frame));
  // Own frames are not filtered further on: in a bundle, the program's frames may be in the same file.
  return (first < 0 ? frames : frames.slice(first)).map((frame) => frame.replace(/^at /, ''));
}

/** The file of this module, and the package's folder unless it is in the program's bundle. */
const FILE = /(?:\(|at )([^()]+?):\d+:\d+\)?$/.exec(framesOf(captureStack(1))[0] ?? '')?.[1] ?? '';
const HOME = /^(.*[/\\])(?:dist|lib|unbundled)[/\\]/.exec(FILE)?.[1];
const FOLDERS = HOME === undefined ? [FILE] : ['dist', 'lib', 'unbundled'].map((name) => HOME + name);

function isOwn(frame: string): boolean {
  return FILE !== '' && FOLDERS.some((folder) => frame.includes(folder));
}
