import { HostFinalizationRegistry } from '../common/host.js';
import { captureStack, framesOf } from '../common/stacks.js';
import type { LockKey } from '../common/types.js';
import { warn } from '../common/warnings.js';
import type { LockTable } from '../engine/contract/engine.js';
import type { Mode } from '../engine/contract/mode.js';
import { formatNote, parseNote } from '../engine/contract/note.js';

/**
 * The record of what a traced guard holds. This record does not refer to the guard, so the guard can be
 * garbage-collected.
 */
interface TracedHold {
  readonly lock: string;
  readonly table: LockTable;
  readonly stripes: readonly number[];
  readonly mode: Mode;
  /** The id of the note in the table. */
  readonly id: number;
  readonly note: string;
}

const UNKNOWN = 'at an unknown place';

type AnyFunction = (...args: never[]) => unknown;

/**
 * The original methods of a lock class, read at import. The program may later replace these methods with
 * functions that call the original ones.
 */
export type PublicMethods = Record<
  'acquire' | 'acquireSync' | 'tryAcquire' | 'withLock' | 'withLockSync',
  AnyFunction
>;

export function methodsOf(prototype: object): PublicMethods {
  const { acquire, acquireSync, tryAcquire, withLock, withLockSync } = prototype as PublicMethods;
  return { acquire, acquireSync, tryAcquire, withLock, withLockSync };
}

/** The functions of this package that are on the stack while the program calls a method of a lock. */
export interface EntryPoints {
  /** The private method that calls {@link traceCall}, directly or indirectly. */
  readonly inner: AnyFunction;
  /** The public method that leads to the call of `inner`. */
  readonly method: AnyFunction;
  /**
   * The public method that may have called `method`. Undefined for `tryAcquire`, which no other method calls.
   */
  readonly outer: AnyFunction | undefined;
}

/** The notes of traced guards. A note is stored before its guard holds anything. */
const notes = new WeakMap<object, string>();
const holds = new WeakMap<object, TracedHold>();
const collected = new HostFinalizationRegistry<TracedHold>(reclaim);

/**
 * Stores the note that `inspect()` shows while the acquisition waits and while the guard is held. Call this
 * while the program's call of the lock's method is on the stack, because this function reads the stack.
 */
export function traceCall(guard: object, keys: readonly LockKey[], entries: EntryPoints): void {
  notes.set(guard, formatNote(keys, callSite(entries)));
}

/** The note that {@link traceCall} stored for a guard. */
export function noteOf(guard: object): string | undefined {
  return notes.get(guard);
}

/** Makes `inspect()` show the guard's stripes, and frees these stripes if the guard is garbage-collected. */
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
  // If `removeNote` throws, the hold stays recorded, so this function can be called again.
  hold.table.removeNote(hold.id);
  holds.delete(guard);
  collected.unregister(guard);
}

/**
 * Frees the stripes of a guard that was garbage-collected while held, because no code can release this guard
 * any more.
 */
function reclaim({ lock, table, stripes, mode, id, note }: TracedHold): void {
  table.removeNote(id);
  for (const stripe of stripes.toReversed()) table.release(stripe, mode);
  const name = lock === '' ? '' : ` of ${JSON.stringify(lock)}`;
  warn(
    'STRIPELOCK_GUARD_LOST',
    `a guard${name} was garbage-collected while held, and its stripes have been released. ` +
      `It was acquired ${parseNote(note).acquiredAt}`,
  );
}

/**
 * Finds the stack frame of the program's code that called this package. The package's frames are recognized
 * by function, not by file: with source maps, in Bun and in bundles, a frame can name another file.
 *
 * The result is the frame above `method`, unless that frame belongs to `outer`. In that case, the program
 * called `outer`, and the result is the frame above `outer`. Calls of `outer` further up the stack do not
 * count, because the program may acquire keys within a callback that it passed to `withLockSync`. In Bun, a
 * function that ends with a call, such as `acquireSync`, has no frame. In that case, the frames above `inner`
 * are used instead.
 *
 * Never throws, whatever `Error.prepareStackTrace` does, because a failed trace must not fail the
 * acquisition.
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
