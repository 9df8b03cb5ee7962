import { compareKeys } from '../common/key-order.js';

/**
 * The first character of every encoded text. Keys and owners are encoded so that a UTF-8 database stores
 * every string without loss, and different strings stay different. UTF-8 cannot encode a lone surrogate, so a
 * database would replace all lone surrogates with the same character. Some drivers truncate a string at a
 * NUL.
 *
 * Almost every string is stored unchanged. A string is encoded only if it contains a lone surrogate or a NUL,
 * or starts with the mark. The encoded text is the mark, followed by the string's UTF-16 in hexadecimal.
 */
export const MARK = '\u{10ffff}';
/** A cheap first test: a text that matches needs no encoding. Most keys and owners match. */
const PLAIN = /^[\w.:/@-]*$/;
const NEEDS_MARK = /[\0\p{Surrogate}]/u;
const HEXADECIMAL = /^[\da-f]*$/;

export function encodeText(text: string): string {
  if (PLAIN.test(text)) return text;
  if (!NEEDS_MARK.test(text) && !text.startsWith(MARK)) return text;
  return MARK + Buffer.from(text, 'utf16le').toString('hex');
}

/**
 * Returns the original of a stored text. A hashed key is returned unchanged, because its original text is not
 * stored.
 */
export function decodeText(stored: string): string {
  if (!stored.startsWith(MARK)) return stored;
  const rest = stored.slice(MARK.length);
  return HEXADECIMAL.test(rest) ? Buffer.from(rest, 'hex').toString('utf16le') : stored;
}

/** The stored texts from `from` (included) to `to` (excluded), ordered by code points. */
export interface TextRange {
  readonly from: string;
  readonly to: string;
}

export function isInRange(text: string, { from, to }: TextRange): boolean {
  return compareKeys(from, text) <= 0 && compareKeys(text, to) < 0;
}

/** Greater than every stored text: if a stored text starts with the mark, only ASCII characters follow. */
const END = MARK + MARK;

/** The ranges of all stored texts whose originals start with `prefix`. The ranges are in ascending order. */
export function rangesOf(prefix: string): readonly TextRange[] {
  if (prefix === '') return [{ from: '', to: END }];
  const marked = MARK + Buffer.from(prefix, 'utf16le').toString('hex');
  const isMarked = { from: marked, to: `${marked}g` };
  const isPlain = !NEEDS_MARK.test(prefix) && !prefix.startsWith(MARK);
  return isPlain ? [{ from: prefix, to: afterAll(prefix) }, isMarked] : [isMarked];
}

/**
 * The least text that is greater than all texts with this prefix. The prefix must contain a character below
 * U+10FFFF.
 */
function afterAll(prefix: string): string {
  const points = Array.from(prefix);
  let last = points.pop()!;
  while (last === MARK) last = points.pop()!;
  const next = last.codePointAt(0)! + 1;
  // The next code point must not be a surrogate, because surrogates are not characters.
  points.push(String.fromCodePoint(next === 0xd800 ? 0xe000 : next));
  return points.join('');
}
