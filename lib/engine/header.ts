import {
  byteLengthFor,
  ENGINE_INDEX,
  MAGIC,
  MAGIC_INDEX,
  STRIPES_INDEX,
  TOKEN_CELL,
  VERSION,
  VERSION_INDEX,
} from './layout.js';

/** Shared memory for a new lock: its header filled in for the given engine, all stripes free. */
export function createMemory(engine: number, stripes: number): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(byteLengthFor(stripes));
  const header = new Int32Array(buffer);
  header[MAGIC_INDEX] = MAGIC;
  header[VERSION_INDEX] = VERSION;
  header[ENGINE_INDEX] = engine;
  header[STRIPES_INDEX] = stripes;
  // Nanoseconds since 1970, so that tokens go on rising where what they fence outlives this process.
  new BigInt64Array(buffer)[TOKEN_CELL] = BigInt(Date.now()) * 1_000_000n;
  return buffer;
}
