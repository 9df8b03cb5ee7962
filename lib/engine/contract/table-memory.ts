import { types } from 'node:util';
import { invalidArg, invalidArgType, ONLY_FOR_THREADS } from '../../common/errors.js';
import { bufferOfWasmMemory } from '../../common/wasm-memory.js';
import { byteLengthFor, STRIPE_INTS } from './layout.js';

/** Where the table of a lock is. Structured-cloneable; the same memory in each thread that gets it. */
export interface TableMemory {
  /** A part of this, or all of `buffer`. A `WebAssembly.Memory` that {@link bufferOfWasmMemory} knows. */
  readonly arena: object | undefined;
  readonly buffer: SharedArrayBuffer | undefined;
  /** Bytes from the start of the memory. */
  readonly offset: number;
  /**
   * JavaScript engine, exact keys: instead of memory, a random name of the thread that has the lock, and the lock's number
   * there. Undefined otherwise.
   */
  readonly local: readonly [number, number, number] | undefined;
}

/** What all threads that use a table agree on. */
export interface TableShape {
  /** The lock's name. The engine only shows it: the first thread that opens the table decides. */
  readonly name: string;
  readonly stripes: number;
  /** Whether each key in use has a stripe of its own. */
  readonly exact: boolean;
  /** See `LockTable.limit`. */
  readonly limit: number;
}

/** Where the table itself is. */
export interface TableSpan {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

const LINE = STRIPE_INTS * Int32Array.BYTES_PER_ELEMENT;

/**
 * Checks what came with a handle. Throws a TypeError (ERR_INVALID_ARG_TYPE) if that is not memory, or if a table of so
 * many stripes cannot be in it.
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
  // One of them would be unused, so the handle was put together from several.
  if (buffer !== undefined) throw corrupt('it has two memories');
  const fits = Number.isInteger(offset) && offset >= 0 && offset % LINE === 0;
  if (!fits || offset > whole.byteLength - length) throw corrupt('its table is not in its memory');
  return { buffer: whole, offset };
}

export function corrupt(why: string): TypeError {
  return invalidArg(`handle must be the intact handle of a lock: ${why}`);
}

/** What became of shared memory on the way to another process. */
function notShared(name: string, expected: string, actual: unknown): TypeError {
  const { message } = invalidArgType(name, expected, actual);
  return invalidArg(`${message}: ${ONLY_FOR_THREADS}`);
}
