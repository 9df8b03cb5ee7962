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

/**
 * The system clock. It is captured at import, because a test may replace `Date.now` later. With a replaced
 * clock, new tokens could be lower than earlier tokens.
 */
const wallClock = Date.now.bind(Date);

/** Creates the shared memory of a new lock. All stripes are free, and the header names the given engine. */
export function createMemory(engine: number, shape: TableShape): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(byteLengthFor(shape.stripes));
  fillHeader(buffer, 0, engine, shape);
  return buffer;
}

/** Writes the header of a table into zeroed memory. `offset` is in bytes, a multiple of 8. */
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
  // The first token is the time in nanoseconds since 1970. So the tokens of a later process are higher, which
  // matters if the protected resource outlives this process.
  new BigInt64Array(buffer, offset)[TOKEN_CELL] = BigInt(Math.trunc(wallClock())) * 1_000_000n;
}

/** Returns the header of a table as 64-bit cells. `offset` is in bytes. */
export function cellsOf(buffer: ArrayBufferLike, offset: number): BigInt64Array {
  const bytes = HEADER_INTS * Int32Array.BYTES_PER_ELEMENT;
  return new BigInt64Array(buffer, offset, bytes / BigInt64Array.BYTES_PER_ELEMENT);
}
