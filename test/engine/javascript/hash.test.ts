import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fnv1a } from '../../../lib/engine/javascript/hash.js';
import { seedFor } from '../../support/seed.js';

describe('the hash', () => {
  it('is FNV-1a: gives what its authors publish', () => {
    // From test_fnv.c of the reference implementation.
    const published: Record<string, number> = {
      '': 0x811c_9dc5,
      a: 0xe40c_292c,
      b: 0xe70c_2de5,
      c: 0xe60c_2c52,
      fo: 0x6222_e842,
      foo: 0xa9f3_7ed7,
      foob: 0x3f50_76ef,
      fooba: 0x39aa_a18a,
      foobar: 0xbf9c_f968,
      'chongo was here!\n': 0xd499_30d5,
    };
    for (const [text, hash] of Object.entries(published)) {
      expect(fnv1a(text)).toBe(hash);
      expect(fnv1a(Buffer.from(text))).toBe(hash);
    }
  });

  it('of a string is that of its UTF-8 bytes, whatever its characters', () => {
    const anyString = fc.string({
      unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
    });
    const surrogates = fc.string({
      unit: fc.constantFrom('a', 'é', '鍵', '\ud83d', '\udd11', '🔑', '\udbff', '\udfff'),
    });
    const same = (text: string): void => {
      expect(fnv1a(text)).toBe(fnv1a(new TextEncoder().encode(text)));
    };
    const seed = seedFor('hash of strings');
    fc.assert(fc.property(anyString, same), { seed, numRuns: 1000 });
    fc.assert(fc.property(surrogates, same), { seed, numRuns: 3000 });
    for (const edge of ['\x7f', '\x80', '\u07ff', '\u0800', '\uffff', '\u{10000}', '\u{10ffff}']) same(edge);
  });
});

describe('the hash of equal strings', () => {
  /** Equal to what is passed, but in one piece of its own. */
  const flat = (text: string): string => Buffer.from(text, 'utf16le').toString('utf16le');

  it('is the same whether they are flat, sliced from others, or joined, and once the code is optimized', () => {
    for (let round = 0; round < 200; round++) {
      for (let i = 0; i < 185; i++) {
        const body = `ké${i}abcdefghijklmnop`;
        for (const last of ['\ud83d', '\udd11']) {
          const key = `${body}${last}`;
          const wanted = fnv1a(new TextEncoder().encode(key));
          const sliced = flat(`${key}\udd11 and what follows`).slice(0, key.length);
          const joined = body + flat(`${last}\udd11`).slice(0, 1);
          const hashes = [flat(key), sliced, joined].map((text) => fnv1a(text));
          if (hashes.some((hash) => hash !== wanted))
            expect.fail(`round ${round}, key ${i}: ${String(hashes)}`);
        }
      }
    }
  });
});
