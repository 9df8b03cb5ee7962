import type { LockKey } from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import type { Mode } from '../engine/contract/mode.js';
import { formatNote, parseNote } from '../engine/contract/note.js';

/** A traced guard's hold, without the guard itself, which may be garbage-collected. */
interface TracedHold {
  readonly lock: string;
  readonly table: LockTable;
  readonly stripes: readonly number[];
  readonly mode: Mode;
  /** The note's id in the table. */
  readonly id: number;
  readonly note: string;
}

/** Enough to recognise the caller of a frame; see {@link callSite}. */
const FRAMES = 3;
const UNKNOWN = 'at an unknown place';

/** A function of this package through which the user's call may have come. */
export type EntryPoint = (...args: never[]) => unknown;

/** By guard, from before it holds anything. */
const notes = new WeakMap<object, string>();
const holds = new WeakMap<object, TracedHold>();
const collected = new FinalizationRegistry<TracedHold>(reclaim);

/**
 * Stores the note that an acquisition shows while it waits and while it holds. Must run within the user's call. `entries`
 * are the functions of this package that the call may have come through: the innermost first.
 */
export function traceCall(guard: object, keys: readonly LockKey[], entries: readonly EntryPoint[]): void {
  notes.set(guard, formatNote(keys, callSite(entries)));
}

/** The note that {@link traceCall} stored. */
export function noteOf(guard: object): string | undefined {
  return notes.get(guard);
}

/** From here on `inspect()` shows what the guard holds, and its stripes are released if it is garbage-collected. */
export function traceHeld(
  lock: string,
  table: LockTable,
  guard: object,
  stripes: readonly number[],
  mode: Mode,
): void {
  const note = noteOf(guard);
  if (note === undefined) return;
  const id = table.addNote(Int32Array.from(stripes), note);
  const hold = { lock, table, stripes, mode, id, note };
  holds.set(guard, hold);
  collected.register(guard, hold, guard);
}

export function traceReleased(guard: object): void {
  const hold = holds.get(guard);
  if (!hold) return;
  // First, as it may overflow the stack; what follows it makes a second call return early.
  hold.table.removeNote(hold.id);
  holds.delete(guard);
  collected.unregister(guard);
}

/** Nobody can release a guard that was collected, so its stripes would stay held for good. */
function reclaim({ lock, table, stripes, mode, id, note }: TracedHold): void {
  table.removeNote(id);
  for (const stripe of stripes.toReversed()) table.release(stripe, mode);
  const name = lock === '' ? '' : ` of ${JSON.stringify(lock)}`;
  process.emitWarning(
    `a guard${name} was garbage-collected while held, and its stripes have been released. ` +
      `It was acquired ${parseNote(note).acquiredAt}`,
    { type: 'StripelockWarning', code: 'STRIPELOCK_GUARD_LOST' },
  );
}

/**
 * The frame that called the package. It goes by functions and not by files: under source maps, in Bun and in a bundle
 * the files of the frames are not those of this package. A function counts only if it called what was found so far,
 * since the program may have come through it before: it may acquire within `withLockSync`. Bun has no frame for a
 * function that ends in the call, and skips it.
 *
 * Never throws, whatever `Error.prepareStackTrace` does: a trace is not worth a failed acquisition.
 */
function callSite(entries: readonly EntryPoint[]): string {
  try {
    let found: readonly string[] = [];
    for (const entry of entries) {
      const callers = framesAbove(entry);
      if (found.length === 0 || calledFrom(found, callers)) found = callers;
    }
    return found[0]?.trim() ?? UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}

/** Whether `callers` are the frames above the first one of `frames`. Both are the first few of longer lists. */
function calledFrom(frames: readonly string[], callers: readonly string[]): boolean {
  if (frames.length < 2 || callers.length === 0) return false;
  return frames.slice(1).every((frame, index) => frame === callers[index]);
}

/** The frames of what called this function, the nearest first. Empty if it is not on the stack. */
function framesAbove(entry: EntryPoint): readonly string[] {
  const { stackTraceLimit } = Error;
  // Not by assignment, which throws if `Error` is frozen (`--frozen-intrinsics`).
  const limited = Reflect.set(Error, 'stackTraceLimit', FRAMES);
  try {
    const target: { stack?: unknown } = {};
    Error.captureStackTrace(target, entry);
    // A string, or whatever `Error.prepareStackTrace` returns.
    return typeof target.stack === 'string' ? target.stack.split('\n').slice(1) : [];
  } finally {
    if (limited) Error.stackTraceLimit = stackTraceLimit;
  }
}
