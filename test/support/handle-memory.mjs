// The table of a handle, for tests that read it or tamper with it: a part of an arena, or a separate buffer.

import { byteLengthFor } from '../../unbundled/engine/contract/layout.js';

/**
 * The table's words, header included.
 *
 * @param {any} handle Its fields are not part of its type.
 */
export function wordsOf({ arena, buffer, offset, stripes }) {
  return new Int32Array(
    arena?.buffer ?? buffer,
    offset,
    byteLengthFor(stripes) / Int32Array.BYTES_PER_ELEMENT,
  );
}

/**
 * The handle of a copy of the table, alone in `buffer`. A shorter buffer gets only the part that fits.
 *
 * @param {import('stripelock').StripedLockHandle} handle
 * @param {SharedArrayBuffer} [buffer]
 */
export function handleOfCopy(handle, buffer = new SharedArrayBuffer(wordsOf(handle).byteLength)) {
  const words = new Int32Array(buffer);
  words.set(wordsOf(handle).subarray(0, words.length));
  return { ...handle, arena: undefined, buffer, offset: 0 };
}
