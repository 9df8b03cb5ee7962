/** Equal strings in V8's different representations. Readers of their characters must see no difference. */
export function sameTextDifferently(text: string): Record<string, string> {
  const half = text.length >> 1;
  // V8 makes a rope of two strings if the result is long enough, and a slice if the part is long enough.
  const rope = [text.slice(0, half), text.slice(half)].reduce((a, b) => a + b, '');
  const frame = 'a frame that is long enough for a slice ';
  return {
    flat: Buffer.from(text, 'utf16le').toString('utf16le'),
    rope,
    slice: `${frame}${text}${frame}`.slice(frame.length, frame.length + text.length),
    // With this frame the string has two bytes a character, and so has its slice.
    'slice of two-byte text': `${frame}鍵${text}鍵`.slice(frame.length + 1, frame.length + 1 + text.length),
    'two bytes a character': twoByte(text),
    'slice of a rope': `${rope}${frame}`.slice(0, text.length),
    joined: Array.from(text).join(''),
    'internalized by use as a name': Object.keys({ [text]: 0 })[0]!,
  };
}

/** Flat, and two bytes a character, even where one is enough. */
function twoByte(text: string): string {
  return Buffer.from(`鍵${text}`, 'utf16le').toString('utf16le').slice(1);
}
