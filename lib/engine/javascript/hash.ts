import { lengthOfBytes } from '../../common/bytes.js';

/**
 * FNV-1a, 32 bits (G. Fowler, L. C. Noll, K.-P. Vo; public domain), of bytes, or of the UTF-8 bytes of
 * a string, without making an array of them.
 */
const OFFSET_BASIS = 0x811c_9dc5 | 0;
const PRIME = 0x0100_0193;

/** An unsigned 32-bit integer. */
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
    if (unit >= 0x80) return ofRest(hash, text, i);
    hash = add(hash, unit);
  }
  return hash;
}

const REPLACEMENT = 0xfffd;

/**
 * The character of two surrogates, or U+FFFD for one that has no partner. Reads units of the string alone: on Node 24 and
 * 26, the optimized `codePointAt` reads past the end of a slice whose last unit is a high surrogate.
 */
function pairAt(text: string, at: number, unit: number): number {
  if (unit >= 0xdc00 || at + 1 >= text.length) return REPLACEMENT;
  const low = text.charCodeAt(at + 1);
  return (low & 0xfc00) === 0xdc00 ? 0x1_0000 + ((unit & 0x3ff) << 10) + (low & 0x3ff) : REPLACEMENT;
}

/** Goes on from the first character that is not ASCII. */
function ofRest(start: number, text: string, from: number): number {
  let hash = start;
  for (let i = from; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point < 0x80) {
      hash = add(hash, point);
      continue;
    }
    if (point < 0x800) {
      hash = add(hash, 0xc0 | (point >> 6));
    } else {
      if ((point & 0xf800) === 0xd800) {
        point = pairAt(text, i, point);
        if (point !== REPLACEMENT) i++;
      }
      if (point < 0x1_0000) {
        hash = add(hash, 0xe0 | (point >> 12));
      } else {
        hash = add(hash, 0xf0 | (point >> 18));
        hash = add(hash, 0x80 | ((point >> 12) & 0x3f));
      }
      hash = add(hash, 0x80 | ((point >> 6) & 0x3f));
    }
    hash = add(hash, 0x80 | (point & 0x3f));
  }
  return hash;
}
