import { expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';

it('the first lock of a thread makes no diagnostic report, which would look up the name of every open socket', async () => {
  const { code, stdout, stderr } = await runProgram('no-report.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toEqual([
    ['native', 0],
    ['native', 0],
  ]);
});

it('a thread whose first lock fails with a stack overflow can still use the native engine', async () => {
  // Many threads, a few at a time, on a machine that may be busy.
  const { code, stdout, stderr } = await runProgram('first-lock-at-stack-limit.mjs', [], [], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { failed, engines } = JSON.parse(stdout) as { failed: number; engines: Record<string, number> };
  expect(Object.keys(engines)).toEqual(['native']);
  // Otherwise the program tested only one side.
  expect(failed).toBeGreaterThan(0);
  expect(failed).toBeLessThan(engines['native']!);
});
