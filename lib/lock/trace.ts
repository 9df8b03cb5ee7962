import { dirname } from 'node:path';
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

/** How many frames to search for the first one outside of this package. */
const FRAMES = 16;
const UNKNOWN = 'at an unknown place';
const OWN_FILES = dirname(import.meta.url);

/** By guard, from before it holds anything. */
const notes = new WeakMap<object, string>();
const holds = new WeakMap<object, TracedHold>();
const collected = new FinalizationRegistry<TracedHold>(reclaim);

/** Stores the note that an acquisition shows while it waits and while it holds. Must run within the user's call. */
export function traceCall(guard: object, keys: readonly LockKey[]): void {
  notes.set(guard, formatNote(keys, callSite()));
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

/** Never throws, whatever `Error.prepareStackTrace` does: a trace is not worth a failed acquisition. */
function callSite(): string {
  try {
    const stack = stackWithin(FRAMES);
    if (typeof stack !== 'string') return UNKNOWN;
    const frames = stack.split('\n').slice(1);
    const outside = frames.find((frame) => !frame.includes(OWN_FILES));
    return outside?.trim() ?? UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}

/** A string, or whatever `Error.prepareStackTrace` returns. */
function stackWithin(frames: number): unknown {
  const { stackTraceLimit } = Error;
  // Not by assignment, which throws if `Error` is frozen (`--frozen-intrinsics`).
  const limited = Reflect.set(Error, 'stackTraceLimit', frames);
  try {
    return new Error().stack;
  } finally {
    if (limited) Error.stackTraceLimit = stackTraceLimit;
  }
}
