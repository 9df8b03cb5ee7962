/** The demo as a user runs it: exit codes, what it reports, what it leaves behind. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { verdict } from '../../examples/ledger/report.mjs';
import { runExample } from './run-example.js';

const ledger = (...args: string[]) => runExample('ledger/ledger.mjs', args);

/** Few accounts and a critical section of microseconds: the workers meet all the time. */
const CROWDED = ['--workers', '4', '--transfers', '60000', '--accounts', '50'];

describe('the ledger demo', () => {
  it.each(['native', 'javascript'])('loses not one cent on the %s engine', async (engine) => {
    const { code, stdout, stderr } = await ledger(...CROWDED, '--engine', engine);
    expect(stderr).toContain('applying 100% | 60000/60000 transfers');
    expect(stdout).toMatch(new RegExp(`^ *engine +${engine}$`, 'm'));
    expect(stdout).toMatch(/^ *audits +[1-9]\d* passed, 0 failed$/m);
    expect(stdout).toMatch(/^ *final balances +equal to a single-threaded replay$/m);
    expect(stdout).toContain('OK: not one cent was lost.');
    expect(code).toBe(0);
  });

  it('holds when all accounts share one stripe', async () => {
    const { code, stdout } = await ledger(...CROWDED, '--stripes', '1');
    expect(stdout).toMatch(/^ *waits +[1-9]/m);
    expect(stdout).toContain('OK: not one cent was lost.');
    expect(code).toBe(0);
  });

  it('loses not one cent between processes', async () => {
    const crowded = ['--processes', '3', '--transfers', '6000', '--accounts', '50'];
    const { code, stdout, stderr } = await ledger(...crowded);
    expect(stderr).toContain('applying 100% | 6000/6000 transfers');
    expect(stdout).toMatch(/^ *engine +native, between processes$/m);
    expect(stdout).toMatch(/^ *keys +64$/m);
    expect(stdout).toMatch(/^ *processes +3$/m);
    expect(stdout).toMatch(/^ *audits +[1-9]\d* passed, 0 failed$/m);
    expect(stdout).toMatch(/^ *final balances +equal to a single-threaded replay$/m);
    expect(stdout).toContain('OK: not one cent was lost.');
    expect(code).toBe(0);
  });

  it('loses money between processes without the lock', async () => {
    const crowded = ['--processes', '4', '--transfers', '60000', '--accounts', '10'];
    const { code, stdout } = await ledger(...crowded, '--unlocked');
    expect(stdout).toMatch(/^ *final balances +\d+ of 10 accounts differ from a replay$/m);
    expect(stdout).toContain('As expected without the lock:');
    expect(code).toBe(0);
  });

  it('loses money without the lock, and says that this was the purpose', async () => {
    const { code, stdout } = await ledger(...CROWDED, '--unlocked');
    expect(stdout).toMatch(/^ *engine +none/m);
    expect(stdout).toMatch(/^ *audits +\d+ passed, [1-9]\d* failed$/m);
    expect(stdout).toMatch(/^ *final balances +\d+ of 50 accounts differ from a replay$/m);
    expect(stdout).toContain('As expected without the lock:');
    expect(code).toBe(0);
  });

  it('fails when --unlocked could not show a loss', () => {
    // Not by a run: one of a single worker loses nothing, but an audit may come in the middle of a transfer.
    const nothingLost = {
      options: { unlocked: true },
      audits: { failed: 0 },
      missingCents: 0,
      differences: 0,
    };
    expect(verdict(nothingLost as Parameters<typeof verdict>[0])).toEqual({
      ok: false,
      text: expect.stringContaining('No money was lost this time') as string,
    });
  });

  it('removes its temporary file', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'ledger-test-'));
    try {
      const env = { TMPDIR: directory, TMP: directory, TEMP: directory };
      const { code } = await runExample('ledger/ledger.mjs', ['--transfers', '1'], env);
      expect(code).toBe(0);
      expect(readdirSync(directory)).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it.each([
    [['--workers', '0'], 'It must be an integer from 1 to 256.'],
    [['--transfers', '1e6'], 'It must be an integer from 1 to 100000000.'],
    [['--accounts', '1'], 'It must be an integer from 2 to 1000000.'],
    [['--stripes', '1048577'], 'It must be an integer from 1 to 1048576.'],
    [['--seed', '-1'], 'It must be an integer from 0 to 4294967295.'],
    [['--engine', 'steam'], 'Allowed choices are native, javascript.'],
    [['--fast'], "unknown option '--fast'"],
    [['--processes', '2', '--workers', '2'], "cannot be used with option '--workers <n>'"],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await ledger(...args);
    expect(stderr).toContain(message);
    expect(stdout).toBe('');
    expect(code).toBe(2);
  });

  it('explains its options', async () => {
    const { code, stdout } = await ledger('--help');
    expect(stdout).toMatch(/--workers[^]*--transfers[^]*--accounts[^]*--stripes[^]*--seed/);
    expect(stdout).toMatch(/--engine[^]*--unlocked[^]*Exit codes:/);
    expect(code).toBe(0);
  });
});

describe('the quick start', () => {
  it('adds up the deposits of both threads', async () => {
    const { code, stdout } = await runExample('quick-start.mjs');
    expect(stdout).toBe('balance: 2000\n');
    expect(code).toBe(0);
  });
});
