/**
 * Keys and owners as UTF-8 databases can keep them, each as another text: such databases have no place for a lone
 * surrogate, which they would make the same as every other, and some of their drivers end a text at a NUL.
 *
 * Almost every text is stored as it is. Others, and those that begin with the mark, are stored as the mark and the
 * hexadecimal digits of their UTF-16.
 */
const MARK = '\u{10ffff}';
/** Most keys and owners, told at a look. */
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
