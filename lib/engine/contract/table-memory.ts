import { types } from 'node:util';
import { invalidArg, invalidArgType, ONLY_FOR_THREADS } from '../../common/errors.js';
import { bufferOfWasmMemory } from '../../common/wasm-memory.js';
import { byteLengthFor, STRIPE_INTS } from './layout.js';

/**
 * The location of a lock's table. This object can be cloned to other threads, which then share the memory.
 */
export interface TableMemory {
  /**
   * The `WebAssembly.Memory` that contains the table (see {@link bufferOfWasmMemory}). If undefined, the
   * table is the whole of `buffer`.
   */
  readonly arena: object | undefined;
  readonly buffer: SharedArrayBuffer | undefined;
  /** The offset of the table from the start of the memory, in bytes. */
  readonly offset: number;
  /**
   * Set only for a lock on exact keys on the JavaScript engine, because such a lock has no shared memory. The
   * first two integers are random and identify the thread that owns the lock. The third is the lock's number
   * in that thread.
   */
  readonly local: readonly [number, number, number] | undefined;
}

/** The parameters with which a thread creates or opens a table. All threads must pass the same numbers. */
export interface TableShape {
  /** The lock's name, only for display. If threads pass different names, the first thread's name is used. */
  readonly name: string;
  readonly stripes: number;
  /** Whether each key in use has a separate stripe. */
  readonly exact: boolean;
  /** See `LockTable.limit`. */
  readonly limit: number;
}

/** The part of a buffer that contains a table. `offset` is in bytes. */
export interface TableSpan {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

const LINE = STRIPE_INTS * Int32Array.BYTES_PER_ELEMENT;

/**
 * Finds the table in the memory of a handle. Throws a TypeError (ERR_INVALID_ARG_TYPE) if the memory is not
 * shared, or cannot contain a table with that many stripes.
 */
export function spanOf({ arena, buffer, offset }: TableMemory, stripes: number): TableSpan {
  const length = byteLengthFor(stripes);
  if (arena === undefined) {
    if (!types.isSharedArrayBuffer(buffer)) throw notShared('handle.buffer', 'a SharedArrayBuffer', buffer);
    if (offset !== 0 || buffer.byteLength !== length) throw corrupt('its size does not fit its stripes');
    return { buffer, offset };
  }
  const whole = bufferOfWasmMemory(arena);
  if (whole === undefined) throw notShared('handle.arena', 'a shared WebAssembly.Memory', arena);
  // An intact handle has either an arena or a buffer. So this handle was combined from several handles.
  if (buffer !== undefined) throw corrupt('it has two memories');
  const fits = Number.isInteger(offset) && offset >= 0 && offset % LINE === 0;
  if (!fits || offset > whole.byteLength - length) throw corrupt('its table is not in its memory');
  return { buffer: whole, offset };
}

export function corrupt(why: string): TypeError {
  return invalidArg(`handle must be the intact handle of a lock: ${why}`);
}

/**
 * The error for a handle whose shared memory is missing, usually because the handle came from another
 * process.
 */
function notShared(name: string, expected: string, actual: unknown): TypeError {
  const { message } = invalidArgType(name, expected, actual);
  return invalidArg(`${message}: ${ONLY_FOR_THREADS}`);
}
