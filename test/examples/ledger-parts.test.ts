/** The parts of the demo that its own checks rest on. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Accounts } from '../../examples/ledger/accounts.mjs';
import { auditDuring, noAudits } from '../../examples/ledger/audit.mjs';
import { writeTransfers } from '../../examples/ledger/generator.mjs';
import { seededRandom, xoshiro128 } from '../../examples/ledger/random.mjs';
import { replay } from '../../examples/ledger/replay.mjs';
import { verdict, type Outcome } from '../../examples/ledger/report.mjs';
import { chunks, eachTransfer, readChunk } from '../../examples/ledger/transfers.mjs';
import { ZIPFIAN_CONSTANT, zeta, zipfian } from '../../examples/ledger/zipf.mjs';

let directory: string;
beforeAll(() => void (directory = mkdtempSync(join(tmpdir(), 'ledger-parts-'))));
afterAll(() => rmSync(directory, { recursive: true }));

const SMALL = { transfers: 5000, accounts: 100, seed: 1 };

function write(name: string, options = SMALL): string {
  const path = join(directory, name);
  writeTransfers(path, options);
  return path;
}

describe('the random source', () => {
  it('follows the published generator', () => {
    const next = xoshiro128([1, 2, 3, 4]);
    // The outputs of the authors' xoshiro128starstar.c from this state.
    expect(Array.from({ length: 10 }, next)).toEqual([
      11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804,
    ]);
  });

  it.each([0, 1, 0xffffffff])('is uniform in [0, 1) from seed %d', (seed) => {
    const random = seededRandom(seed);
    const draws = Array.from({ length: 100_000 }, random);
    expect(draws.every((draw) => draw >= 0 && draw < 1)).toBe(true);
    // The mean of that many has a standard deviation of 0.0009.
    expect(draws.reduce((sum, draw) => sum + draw) / draws.length).toBeCloseTo(0.5, 2);
  });
});

describe('the Zipfian choice', () => {
  const COUNT = 20_000;
  const DRAWS = 400_000;
  const drawn = new Array<number>(COUNT).fill(0);
  const share = (ranks: number) => drawn.slice(0, ranks).reduce((sum, times) => sum + times, 0) / DRAWS;
  const theory = (ranks: number) => zeta(ranks, ZIPFIAN_CONSTANT) / zeta(COUNT, ZIPFIAN_CONSTANT);

  beforeAll(() => {
    const next = zipfian(COUNT, seededRandom(1));
    for (let i = 0; i < DRAWS; i++) drawn[next()]!++;
  });

  it('draws nothing but ranks', () => {
    expect(drawn).toHaveLength(COUNT);
    expect(drawn.reduce((sum, times) => sum + times)).toBe(DRAWS);
  });

  it.each([1, 2])('draws the top %d as often as the theory says', (ranks) => {
    const expected = theory(ranks);
    const deviation = Math.sqrt((expected * (1 - expected)) / DRAWS);
    expect(Math.abs(share(ranks) - expected)).toBeLessThan(4 * deviation);
  });

  // The method's own error, beyond chance, is 5 %, 2.5 % and 1 % here, always towards the top.
  it.each([
    [10, 0.06],
    [100, 0.035],
    [1000, 0.02],
  ])('draws the top %d nearly as often', (ranks, tolerance) => {
    expect(Math.abs(share(ranks) / theory(ranks) - 1)).toBeLessThan(tolerance);
  });

  it('draws each of the top ten more often than the next', () => {
    const top = drawn.slice(0, 11);
    expect(top).toEqual([...top].sort((a, b) => b - a));
  });

  it('works down to two ranks', () => {
    const next = zipfian(2, seededRandom(1));
    const draws = Array.from({ length: 10_000 }, next);
    expect(new Set(draws)).toEqual(new Set([0, 1]));
  });

  it('stays in range at the ends of the random source', () => {
    for (const count of [2, 3, 20_000]) {
      expect(zipfian(count, () => 0)()).toBe(0);
      expect(zipfian(count, () => 1 - Number.EPSILON / 2)()).toBe(count - 1);
    }
  });
});

describe('the file of transfers', () => {
  it('is the same for the same seed', () => {
    const first = readFileSync(write('first'));
    expect(first.equals(readFileSync(write('again')))).toBe(true);
    expect(first.equals(readFileSync(write('other', { ...SMALL, seed: 2 })))).toBe(false);
  });

  it('holds the transfers asked for, each between two accounts', () => {
    let seen = 0;
    eachTransfer(readChunk(write('all'), 0, SMALL.transfers), (from, to, cents, record) => {
      expect(record.readUInt32LE(0)).toBe(seen++);
      expect(from).not.toBe(to);
      expect(Math.max(from, to)).toBeLessThan(SMALL.accounts);
      expect(cents).toBeGreaterThan(0);
    });
    expect(seen).toBe(SMALL.transfers);
  });

  it('is longer than one write of the generator', () => {
    const options = { ...SMALL, transfers: 70_000 };
    const bytes = readChunk(write('long', options), 69_999, 1);
    expect(bytes.readUInt32LE(0)).toBe(69_999);
  });

  it('reads the same in chunks as in one piece', () => {
    const path = write('chunks');
    const parts = Array.from(chunks(SMALL.transfers, 999), ({ first, count }) =>
      readChunk(path, first, count),
    );
    expect(Buffer.concat(parts).equals(readFileSync(path))).toBe(true);
  });

  it('is refused when it is too short', () => {
    expect(() => readChunk(write('short'), SMALL.transfers - 1, 2)).toThrow('ends before transfer');
  });
});

describe('the checks of the demo', () => {
  it('reach the same accounts in any order of the transfers', () => {
    const path = write('order');
    const backwards = new Accounts(SMALL.accounts);
    for (let first = SMALL.transfers - 1; first >= 0; first--) {
      eachTransfer(readChunk(path, first, 1), (...transfer) => backwards.transfer(...transfer));
    }
    expect(backwards.differencesFrom(replay(path, SMALL))).toBe(0);
  });

  it('see a transfer that was left out', () => {
    const path = write('left-out');
    const fewer = replay(path, { ...SMALL, transfers: SMALL.transfers - 1 });
    expect(fewer.differencesFrom(replay(path, SMALL))).toBe(2);
  });

  it('see one lost cent in an audit', async () => {
    const accounts = new Accounts(10);
    const passing = noAudits();
    await auditDuring(accounts, undefined, Promise.resolve(), passing);
    expect(passing).toMatchObject({ passed: 1, failed: 0 });

    new Float64Array(accounts.memory, 0, 1)[0]! -= 1;
    const failing = noAudits();
    await auditDuring(accounts, undefined, Promise.resolve(), failing);
    expect(failing).toMatchObject({ passed: 0, failed: 1 });
  });

  const sound: Outcome = {
    options: { workers: 4, stripes: 1024, ...SMALL },
    stats: undefined,
    seconds: 1,
    audits: { passed: 5, failed: 0, longestWait: 1 },
    missingCents: 0,
    differences: 0,
  };

  it('pass a sound run', () => {
    expect(verdict(sound).ok).toBe(true);
  });

  it.each([
    [{ audits: { passed: 5, failed: 1, longestWait: 1 } }, 'FAILED: balances are wrong.'],
    [{ differences: 2 }, 'FAILED: balances are wrong.'],
    [{ missingCents: 1 }, 'FAILED: 0.01 was lost.'],
    [{ missingCents: -150 }, 'FAILED: 1.50 appeared from nowhere.'],
  ])('fail a run under the lock with %j', (flaw, text) => {
    expect(verdict({ ...sound, ...flaw })).toEqual({ ok: false, text });
  });

  it('want a loss of a run without the lock', () => {
    const options = { ...sound.options, unlocked: true };
    expect(verdict({ ...sound, options }).ok).toBe(false);
    expect(verdict({ ...sound, options, missingCents: 1 }).ok).toBe(true);
  });
});
