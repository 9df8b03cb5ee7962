// @ts-check
/**
 * The file of transfers: records of a fixed length, so that any run of them can be read on its own.
 *
 *     bytes   0–3      4–7    8–11   12–15      each an unsigned little-endian integer
 *             number   from   to     cents
 *
 * The number, counted from 0, makes every record different, and so every receipt.
 */
import { closeSync, openSync, readSync } from 'node:fs';

export const RECORD_BYTES = 16;

/**
 * The account that `--hot` makes busy: without that, the one that is used least.
 *
 * @param {number} accounts How many there are.
 */
export const hotAccount = (accounts) => accounts - 1;

/**
 * @param {Buffer} buffer
 * @param {number} offset
 * @param {number} number
 * @param {number} from
 * @param {number} to
 * @param {number} cents
 */
export function writeRecord(buffer, offset, number, from, to, cents) {
  buffer.writeUInt32LE(number, offset);
  buffer.writeUInt32LE(from, offset + 4);
  buffer.writeUInt32LE(to, offset + 8);
  buffer.writeUInt32LE(cents, offset + 12);
}

/**
 * Reads transfers `first` … `first + count - 1`. The file is opened anew for each chunk, which
 * costs little next to applying it and leaves no thread with an open file to look after.
 *
 * @param {string} path
 * @param {number} first
 * @param {number} count
 */
export function readChunk(path, first, count) {
  const chunk = Buffer.allocUnsafe(count * RECORD_BYTES);
  const file = openSync(path, 'r');
  try {
    for (let done = 0; done < chunk.length;) {
      const read = readSync(file, chunk, done, chunk.length - done, first * RECORD_BYTES + done);
      if (read === 0) throw new Error(`${path} ends before transfer ${first + count - 1}`);
      done += read;
    }
  } finally {
    closeSync(file);
  }
  return chunk;
}

/**
 * @param {Buffer} chunk
 * @param {(from: number, to: number, cents: number, record: Buffer) => void} visit
 */
export function eachTransfer(chunk, visit) {
  for (let offset = 0; offset < chunk.length; offset += RECORD_BYTES) {
    const record = chunk.subarray(offset, offset + RECORD_BYTES);
    visit(record.readUInt32LE(4), record.readUInt32LE(8), record.readUInt32LE(12), record);
  }
}

/**
 * Cuts transfers 0 … total - 1 into chunks.
 *
 * @param {number} total
 * @param {number} size
 * @returns {Generator<{ first: number; count: number }>}
 */
export function* chunks(total, size) {
  for (let first = 0; first < total; first += size) {
    yield { first, count: Math.min(size, total - first) };
  }
}
