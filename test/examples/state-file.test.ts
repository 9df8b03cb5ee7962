import { expect, it } from 'vitest';
import { runExample } from './run-example.js';

it('no change of a state file is lost, though a process is killed', async () => {
  const { code, stdout, stderr } = await runExample('state-file/program.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const [, changes, sum] = /^(\d+) changes, (\d+) by 9 processes\nno change was lost\n$/.exec(stdout) ?? [
    stdout,
  ];
  expect(changes).toBe(sum);
  // 8 processes made all of their 25 changes, and the one that was killed at least one.
  expect(Number(changes)).toBeGreaterThan(8 * 25);
  expect(Number(changes)).toBeLessThanOrEqual(9 * 25);
});
