// The table of a handle, for tests that read it or tamper with it: a part of an arena, or a buffer of its own.

import { byteLengthFor } from '../../dist/engine/contract/layout.js';

/** The table's words, header included. */
export function wordsOf({ arena, buffer, offset, stripes }) {
  return new Int32Array(
    arena?.buffer ?? buffer,
    offset,
    byteLengthFor(stripes) / Int32Array.BYTES_PER_ELEMENT,
  );
}

/** The handle of a copy of the table as it is now, in `buffer`, which may be too short for all of it. */
export function handleOfCopy(handle, buffer = new SharedArrayBuffer(wordsOf(handle).byteLength)) {
  const words = new Int32Array(buffer);
  words.set(wordsOf(handle).subarray(0, words.length));
  return { ...handle, arena: undefined, buffer, offset: 0 };
}
