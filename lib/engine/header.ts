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

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;

/** New shared memory for a lock: the header filled in, every stripe free. */
export function createMemory(engineCode: number, stripes: number): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(byteLengthFor(stripes));
  const header = new Int32Array(buffer);
  header[MAGIC_INDEX] = MAGIC;
  header[VERSION_INDEX] = VERSION;
  header[ENGINE_INDEX] = engineCode;
  header[STRIPES_INDEX] = stripes;
  // So that tokens go on rising when the process is started again.
  new BigInt64Array(buffer)[TOKEN_CELL] = BigInt(Date.now()) * NANOSECONDS_PER_MILLISECOND;
  return buffer;
}
