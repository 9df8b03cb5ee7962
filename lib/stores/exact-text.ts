/**
 * Encodes keys and owners so that every string survives storage in a UTF-8 database, and different strings stay
 * different. UTF-8 has no lone surrogates, so a database would replace each of them with the same character. Some
 * drivers cut a string at a NUL.
 *
 * Almost every string is stored unchanged. A string that contains a surrogate or a NUL, or starts with the mark, is
 * stored as the mark followed by its UTF-16 in hexadecimal.
 */
export const MARK = '\u{10ffff}';
/** A cheap first test that matches most keys and owners. */
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
