import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ProcessLock } from 'stripelock/process';
import { lockPath } from './peer.js';

/** Nanoseconds, as tokens count: so far ahead of the clock is a token after the clock was set back. */
const AHEAD = 3_600_000_000_000n;
/** Far above all tokens of this century, and below what a token can be. */
const NO_TOKEN = 1n << 62n;
const HEADER_BYTES = 4096;

/** The tokens that a process gets that opens the file, acquires these keys one after the other, and ends. */
async function tokensOf(
  file: string,
  acquisitions: readonly (string | readonly string[])[],
): Promise<bigint[]> {
  const lock = new ProcessLock({ path: file });
  const tokens = acquisitions.map((keys) => {
    const guard = lock.acquireSync(keys);
    guard.release();
    return guard.token;
  });
  await lock.close();
  return tokens;
}

/** Replaces a token wherever the file has it. */
function replace(file: string, token: bigint, by: bigint): void {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(token);
  const contents = readFileSync(file);
  const opened = openSync(file, 'r+');
  const replacement = Buffer.alloc(8);
  replacement.writeBigUInt64LE(by);
  let at = contents.indexOf(bytes);
  expect(at).toBeGreaterThan(0);
  for (; at >= 0; at = contents.indexOf(bytes, at + 1)) writeSync(opened, replacement, 0, 8, at);
  closeSync(opened);
}

/** Makes the file remember a token for a key. */
async function remember(file: string, key: string, by: (token: bigint) => bigint): Promise<bigint> {
  const [token] = await tokensOf(file, [key]);
  replace(file, token!, by(token!));
  return by(token!);
}

function loseHeader(file: string): void {
  const opened = openSync(file, 'r+');
  writeSync(opened, Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
  closeSync(opened);
}

const KEYS = Array.from({ length: 8 }, (_, i) => `key ${i}`);

describe('the tokens of a key rise', () => {
  it('above one that is ahead of the clock', async () => {
    const file = lockPath();
    const ahead = await remember(file, 'a', (token) => token + AHEAD);
    const [one, two] = await tokensOf(file, ['a', 'a']);
    expect(one).toBeGreaterThan(ahead);
    expect(two).toBeGreaterThan(one!);
    expect((await tokensOf(file, ['a']))[0]).toBeGreaterThan(two!);
  });

  it('after the header was lost, for every key', async () => {
    const file = lockPath();
    const before: bigint[] = [];
    for (const [i, key] of KEYS.entries()) {
      before.push(await remember(file, key, (token) => token + BigInt(i) * AHEAD));
    }
    loseHeader(file);
    const after = await tokensOf(file, KEYS);
    for (const [i, token] of after.entries()) expect(token).toBeGreaterThan(before[i]!);
    // Now the highest tokens belong to few keys.
    loseHeader(file);
    const last = await tokensOf(file, KEYS.toReversed());
    for (const [i, token] of last.toReversed().entries()) expect(token).toBeGreaterThan(after[i]!);
  });

  it('for keys that are acquired together, above the tokens of each', async () => {
    const file = lockPath();
    for (const key of KEYS) {
      const ahead = await remember(file, key, (token) => token + AHEAD);
      const [together] = await tokensOf(file, [KEYS]);
      expect(together).toBeGreaterThan(ahead);
      for (const one of KEYS) expect((await tokensOf(file, [one]))[0]).toBeGreaterThan(together!);
    }
  });

  it.each(['with its header', 'without its header'])(
    'by little after garbage was written over them (%s)',
    async (header) => {
      const file = lockPath();
      for (const garbage of [NO_TOKEN * 2n - 1n, NO_TOKEN * 4n - 1n, NO_TOKEN * 3n, 0n]) {
        await remember(file, 'a', () => garbage);
        const earlier = BigInt(Date.now() - 1000) * 1_000_000n;
        if (header === 'without its header') loseHeader(file);
        const [one, two] = await tokensOf(file, ['a', 'a']);
        expect(one).toBeGreaterThan(earlier);
        expect(two).toBeGreaterThan(one!);
        expect(two).toBeLessThan(NO_TOKEN);
      }
    },
  );

  it('after any part of the header was damaged', async () => {
    const file = lockPath();
    let last = 0n;
    for (const garbage of [0, 0x5a, 0xff]) {
      // Behind the mark and the version, which another file or another package could have.
      for (let at = 20; at < 1200; at += 12) {
        const [token] = await tokensOf(file, ['a']);
        expect(token, `at ${at}`).toBeGreaterThan(last);
        expect(token, `at ${at}`).toBeLessThan(NO_TOKEN);
        last = token!;
        const opened = openSync(file, 'r+');
        writeSync(opened, Buffer.alloc(8, garbage), 0, 8, at);
        closeSync(opened);
      }
    }
  });
});
