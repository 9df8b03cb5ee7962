import { HostFinalizationRegistry } from '../common/host.js';
import { captureStack, framesOf } from '../common/stacks.js';
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

const UNKNOWN = 'at an unknown place';

type AnyFunction = (...args: never[]) => unknown;

/** The functions of this package that a call of the user comes through. */
export interface EntryPoints {
  /** What calls {@link traceCall}'s caller. */
  readonly inner: AnyFunction;
  /** The public method that calls that one, or is it. */
  readonly method: AnyFunction;
  /** The public method that may have called that one. */
  readonly outer: AnyFunction | undefined;
}

/** The notes of guards, from before they hold anything. */
const notes = new WeakMap<object, string>();
const holds = new WeakMap<object, TracedHold>();
const collected = new HostFinalizationRegistry<TracedHold>(reclaim);

/** Stores the note that an acquisition shows while it waits and while it holds. Must run within the user's call. */
export function traceCall(guard: object, keys: readonly LockKey[], entries: EntryPoints): void {
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
 * the files of the frames are not those of this package. The outer method counts only if it called the method, since
 * the program may have come through it before: it may acquire within `withLockSync`. Bun has no frame for a function
 * that ends in the call, as `acquireSync` does.
 *
 * Never throws, whatever `Error.prepareStackTrace` does: a trace is not worth a failed acquisition.
 */
function callSite({ inner, method, outer }: EntryPoints): string {
  try {
    let [caller, above] = framesOf(captureStack(2, method));
    if (caller === undefined) [caller, above] = framesOf(captureStack(2, inner));
    if (outer !== undefined && above !== undefined) {
      const [aboveOuter] = framesOf(captureStack(1, outer));
      if (above === aboveOuter) caller = above;
    }
    return caller ?? UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}
