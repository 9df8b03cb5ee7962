import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runNode, type ProgramResult } from '../support/programs.js';
import { reportMissing } from '../support/requirements.js';
import { DRIVER_ADVICE, sqliteDrivers } from '../support/sqlite.js';

/** Milliseconds for a program of a few seconds, including the end of its threads, on a busy machine. */
const LIMIT = 55_000;

function soak(program: string, seconds: number, ...options: string[]): Promise<ProgramResult> {
  const script = fileURLToPath(new URL('run.mjs', import.meta.url));
  return runNode([script, program, '--minutes', String(seconds / 60), ...options], LIMIT);
}

it('dying threads, deadlocks, timeouts, aborts and misuse, all at once, wedge nothing', async () => {
  const { code, stdout, stderr } = await soak('locks', 4);
  console.log(stdout);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

it.each(['none', 'page', 'header', 'size'])(
  'processes that are killed and stopped, and threads that are terminated, break no lock of a file (damage: %s)',
  async (damage) => {
    const options = damage === 'none' ? [] : ['--damage', damage];
    const { code, stdout, stderr } = await soak('processes', 6, ...options);
    console.log(stdout);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  },
);

it('processes that are killed while they update files lose no update and leave nothing', async () => {
  const { code, stdout, stderr } = await soak('files', 6);
  console.log(stdout);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

if (sqliteDrivers.length === 0) {
  reportMissing('that a broken promise ends a program with an error', 'driver of SQLite', DRIVER_ADVICE);
} else {
  it('a broken promise ends a program with an error that names it', async () => {
    const { code, stdout, stderr } = await soak('faults', 1, '--store', 'sqlite', '--plant', 'plain-counter');
    expect(code, stderr).toBe(1);
    expect(stderr).toMatch(/^violation: sqlite: the store forgets everything: /m);
    expect(stdout).toMatch(/\d+ violations\n$/);
  });
}
