/**
 * The stack of a call. It is written out, as a string, when it is read first, which takes ten times as long as to capture it.
 * Not a string if a program replaces `Error.prepareStackTrace`.
 */
export interface CapturedStack {
  readonly stack?: unknown;
}

/** The stack here, or above that function: at most so many frames. Writes nothing yet. */
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

/** The frames, the nearest first. Empty if they are not text. */
export function framesOf({ stack }: CapturedStack): string[] {
  if (typeof stack !== 'string') return [];
  return stack
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
}

/**
 * The frames of the program that called the package, without code of the program running: `Error.prepareStackTrace` is out
 * of the way meanwhile. Frames of this package are left out at the front, and those of Node everywhere.
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
  // In a bundle, the program's own frames may be in the same file.
  return (first < 0 ? frames : frames.slice(first)).map((frame) => frame.replace(/^at /, ''));
}

/** The file of this module; and where the package is, unless it is in a bundle of the program's. */
const FILE = /(?:\(|at )([^()]+?):\d+:\d+\)?$/.exec(framesOf(captureStack(1))[0] ?? '')?.[1] ?? '';
const HOME = /^(.*[/\\])(?:dist|lib|unbundled)[/\\]/.exec(FILE)?.[1];
const FOLDERS = HOME === undefined ? [FILE] : ['dist', 'lib', 'unbundled'].map((name) => HOME + name);

function isOwn(frame: string): boolean {
  return FILE !== '' && FOLDERS.some((folder) => frame.includes(folder));
}
