import {
  byteLengthFor,
  ENGINE_INDEX,
  EXACT_INDEX,
  HEADER_INTS,
  LIMIT_INDEX,
  MAGIC,
  MAGIC_INDEX,
  STRIPES_INDEX,
  TOKEN_CELL,
  VERSION,
  VERSION_INDEX,
} from './layout.js';
import type { TableShape } from './table-memory.js';

/** Bound at import: a test may replace the clock later, and tokens would begin below those of earlier locks. */
const wallClock = Date.now.bind(Date);

/** Shared memory for one new lock: its header filled in for the given engine, all stripes free. */
export function createMemory(engine: number, shape: TableShape): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(byteLengthFor(shape.stripes));
  fillHeader(buffer, 0, engine, shape);
  return buffer;
}

/** The header alone, in zeroed memory, at `offset` bytes from its start, a multiple of 8. */
export function fillHeader(
  buffer: ArrayBufferLike,
  offset: number,
  engine: number,
  { stripes, exact, limit }: TableShape,
): void {
  const header = new Int32Array(buffer, offset, HEADER_INTS);
  header[MAGIC_INDEX] = MAGIC;
  header[VERSION_INDEX] = VERSION;
  header[ENGINE_INDEX] = engine;
  header[STRIPES_INDEX] = stripes;
  header[EXACT_INDEX] = exact ? 1 : 0;
  header[LIMIT_INDEX] = limit;
  // Nanoseconds since 1970, so that tokens keep rising even if what they fence outlives this process.
  new BigInt64Array(buffer, offset)[TOKEN_CELL] = BigInt(Math.trunc(wallClock())) * 1_000_000n;
}

/** All cells of the header of a table at `offset` bytes from the start of its memory. */
export function cellsOf(buffer: ArrayBufferLike, offset: number): BigInt64Array {
  const bytes = HEADER_INTS * Int32Array.BYTES_PER_ELEMENT;
  return new BigInt64Array(buffer, offset, bytes / BigInt64Array.BYTES_PER_ELEMENT);
}
