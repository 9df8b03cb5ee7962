import { lengthOfBytes } from '../../common/bytes.js';

/**
 * FNV-1a with 32 bits (G. Fowler, L. C. Noll, K.-P. Vo; public domain), over bytes or over the UTF-8 bytes of
 * a string. A lone surrogate is hashed as U+FFFD.
 */
const OFFSET_BASIS = 0x811c_9dc5 | 0;
const PRIME = 0x0100_0193;

/** Returns the hash as an unsigned 32-bit integer. */
export function fnv1a(key: string | Uint8Array): number {
  return (typeof key === 'string' ? ofString(key) : ofBytes(key)) >>> 0;
}

function add(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, PRIME);
}

function ofBytes(bytes: Uint8Array): number {
  let hash = OFFSET_BASIS;
  const length = lengthOfBytes(bytes);
  for (let i = 0; i < length; i++) hash = add(hash, bytes[i]!);
  return hash;
}

function ofString(text: string): number {
  let hash = OFFSET_BASIS;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80) return ofBytes(Buffer.from(text));
    hash = add(hash, unit);
  }
  return hash;
}
