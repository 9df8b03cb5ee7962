/**
 * Keys and owners in a form that databases with UTF-8 can keep, with different forms for different texts. Such a
 * database cannot keep a lone surrogate: it would replace all of them with the same character. And some drivers end a
 * text at a NUL.
 *
 * Almost every text is stored as it is. A text with a surrogate or a NUL, or that begins with the mark, is stored as the
 * mark and the hexadecimal digits of its UTF-16.
 */
export const MARK = '\u{10ffff}';
/** A quick test that matches most keys and owners. */
const PLAIN = /^[\w.:/@-]*$/;
const NEEDS_MARK = /[\0\p{Surrogate}]/u;

export function encodeText(text: string): string {
  if (PLAIN.test(text)) return text;
  if (!NEEDS_MARK.test(text) && !text.startsWith(MARK)) return text;
  return MARK + Buffer.from(text, 'utf16le').toString('hex');
}

export function decodeText(stored: string): string {
  if (!stored.startsWith(MARK)) return stored;
  return Buffer.from(stored.slice(MARK.length), 'hex').toString('utf16le');
}
