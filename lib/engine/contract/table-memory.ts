import { types } from 'node:util';
import { invalidArg, invalidArgType, ONLY_FOR_THREADS } from '../../common/errors.js';
import { bufferOfWasmMemory } from '../../common/wasm-memory.js';
import { byteLengthFor, STRIPE_INTS } from './layout.js';

/** The location of a lock's table. It can be cloned to other threads, which then share the same memory. */
export interface TableMemory {
  /** The table is a part of this `WebAssembly.Memory` (see {@link bufferOfWasmMemory}), or all of `buffer`. */
  readonly arena: object | undefined;
  readonly buffer: SharedArrayBuffer | undefined;
  /** Bytes from the start of the memory. */
  readonly offset: number;
  /**
   * JavaScript engine with exact keys: instead of memory, the random id of the thread that owns the lock, and the
   * lock's number there. Otherwise undefined.
   */
  readonly local: readonly [number, number, number] | undefined;
}

/** The parameters that all threads of a table must agree on. */
export interface TableShape {
  /** The lock's name. The engine only displays it, as given by the first thread that opens the table. */
  readonly name: string;
  readonly stripes: number;
  /** Whether each key in use has a separate stripe. */
  readonly exact: boolean;
  /** See `LockTable.limit`. */
  readonly limit: number;
}

/** The memory of a table. */
export interface TableSpan {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

const LINE = STRIPE_INTS * Int32Array.BYTES_PER_ELEMENT;

/**
 * Validates the memory in a handle. Throws a TypeError (ERR_INVALID_ARG_TYPE) if it is not shared memory, or cannot
 * contain a table with that many stripes.
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
  // An intact handle has only one of the two, so this one was combined from several.
  if (buffer !== undefined) throw corrupt('it has two memories');
  const fits = Number.isInteger(offset) && offset >= 0 && offset % LINE === 0;
  if (!fits || offset > whole.byteLength - length) throw corrupt('its table is not in its memory');
  return { buffer: whole, offset };
}

export function corrupt(why: string): TypeError {
  return invalidArg(`handle must be the intact handle of a lock: ${why}`);
}

/** The error for shared memory that did not survive being sent to another process. */
function notShared(name: string, expected: string, actual: unknown): TypeError {
  const { message } = invalidArgType(name, expected, actual);
  return invalidArg(`${message}: ${ONLY_FOR_THREADS}`);
}
