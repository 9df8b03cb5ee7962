import { expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';

it('the first lock of a thread makes no diagnostic report, which would resolve the name of every open socket', async () => {
  const { code, stdout, stderr } = await runProgram('no-report.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toEqual([
    ['native', 0],
    ['native', 0],
  ]);
});

it('a first lock that fails near the end of the stack does not leave its thread without the native engine', async () => {
  // So many threads, a few at a time, on a machine that may be busy.
  const { code, stdout, stderr } = await runProgram('first-lock-at-stack-limit.mjs', [], [], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { failed, engines } = JSON.parse(stdout) as { failed: number; engines: Record<string, number> };
  expect(Object.keys(engines)).toEqual(['native']);
  // Otherwise it would have looked at only one side.
  expect(failed).toBeGreaterThan(0);
  expect(failed).toBeLessThan(engines['native']!);
});
