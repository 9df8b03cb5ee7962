// Whole processes, with the addon and without it.
import { describe, expect, it } from 'vitest';
import { copyForTest, PACKAGE_ROOT } from '../support/package-copy.js';
import { runProgram, type ProgramResult } from '../support/programs.js';

const WARNING = /StripelockWarning: the native addon could not be loaded/g;

async function run(addon: boolean, scenario: string): Promise<ProgramResult> {
  const folder = addon ? PACKAGE_ROOT : await copyForTest();
  return runProgram('web-locks-keep-alive.mjs', [folder, scenario]);
}

describe.each([
  ['with the addon', true],
  ['without the addon', false],
] as const)('a process %s', (_with, addon) => {
  it.each([
    ['granted by this thread', 'granted'],
    ['timed out', 'TimeoutError'],
    ['nobody waits', 'AbortError'],
    ['nobody waits any more', 'AbortError'],
  ])('lives for as long as a request waits, and no longer: %s', async (scenario, output) => {
    const { code, stdout, stderr } = await run(addon, scenario);
    expect({ code, stdout: stdout.trim() }, stderr).toEqual({ code: 0, stdout: output });
    expect(stderr.match(WARNING) ?? []).toHaveLength(addon ? 0 : 1);
  });

  it('opens a handle in another thread, or says why not', async () => {
    const { code, stdout } = await run(addon, 'the handle in another thread');
    expect({ code, stdout: stdout.trim() }).toEqual({
      code: 0,
      stdout: addon ? 'opened' : 'ERR_LOCK_ENGINE',
    });
  });

  it('warns once if the addon is missing, and not otherwise', async () => {
    const { code, stdout } = await run(addon, 'nothing but a warning');
    const warning = addon ? [] : ['StripelockWarning STRIPELOCK_NO_ADDON'];
    expect(code).toBe(0);
    expect(stdout.trim().split('\n').toSorted()).toEqual(['a 0', ...warning].toSorted());
  });
});

it('a process with the addon lives until another thread grants what it waits for', async () => {
  const { code, stdout, stderr } = await run(true, 'granted by another thread');
  expect({ code, stdout: stdout.trim(), stderr }).toEqual({ code: 0, stdout: 'granted', stderr: '' });
});
