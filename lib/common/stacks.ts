/**
 * The stack of a call. The text is formatted when `stack` is first read, which takes ten times as long as the
 * capture. If a program replaces `Error.prepareStackTrace`, `stack` may not be a string.
 */
export interface CapturedStack {
  readonly stack?: unknown;
}

/**
 * Captures up to `frames` frames without formatting them. The first frame is the caller of `above`; without
 * `above`, it is this function.
 */
export function captureStack(frames: number, above?: (...args: never[]) => unknown): CapturedStack {
  const { stackTraceLimit } = Error;
  // An assignment would throw if `Error` is frozen (`--frozen-intrinsics`).
  const limited = Reflect.set(Error, 'stackTraceLimit', frames);
  try {
    const target: CapturedStack = {};
    Error.captureStackTrace(target, above);
    return target;
  } finally {
    if (limited) Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Returns the frames, innermost first. Empty if the stack is not a string. */
export function framesOf({ stack }: CapturedStack): string[] {
  if (typeof stack !== 'string') return [];
  return stack
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
}

/**
 * Returns the frames of the program that called the package. Removes `Error.prepareStackTrace` temporarily,
 * so that no user code runs. Omits Node's frames, and the package's frames before the first frame of the
 * program.
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
  const first = frames.findIndex((frame) => !isOwn(frame) && !frame.endsWith(BUILTIN));
  // The package's later frames are kept: in a bundle, the program's frames may be in the same file.
  return (first < 0 ? frames : frames.slice(first)).map((frame) => frame.replace(/^at /, ''));
}

/** The end of the frame of a built-in function that this package called, such as `Array.map`. */
const BUILTIN = '(<anonymous>)';
/** The file of this module. `HOME` is the package's folder; undefined if the package is part of a bundle. */
const FILE = /(?:\(|at )([^()]+?):\d+:\d+\)?$/.exec(framesOf(captureStack(1))[0] ?? '')?.[1] ?? '';
const HOME = /^(.*[/\\])(?:dist|lib|unbundled)[/\\]/.exec(FILE)?.[1];
const FOLDERS = HOME === undefined ? [FILE] : ['dist', 'lib', 'unbundled'].map((name) => HOME + name);

function isOwn(frame: string): boolean {
  return FILE !== '' && FOLDERS.some((folder) => frame.includes(folder));
}
