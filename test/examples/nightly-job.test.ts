import { expect, it } from 'vitest';
import { runExample } from './run-example.js';

it('the nightly job is taken over from a paused worker, whose late write is refused', async () => {
  const { code, stdout, stderr } = await runExample('nightly-job/nightly-job.mjs', ['--ttl', '800']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const first = /^(worker \d) runs the job under token (\d+)$/m.exec(stdout)!;
  const [, paused, staleToken] = first;
  expect(stdout).toContain(`${paused} is paused for 1600 ms`);
  expect(stdout).toContain(`${paused} goes on; its lease was lost meanwhile`);
  expect(stdout).toMatch(/^worker \d finds the job taken$/m);
  const [, refused, stale, newest] =
    /^(worker \d) may not write any more: token (\d+) is stale, (\d+) came after it$/m.exec(stdout)!;
  expect([refused, stale]).toEqual([paused, staleToken]);
  const [, author, token] = /^the report: \d+ lines, written by (worker \d) under token (\d+)$/m.exec(
    stdout,
  )!;
  expect(author).not.toBe(paused);
  expect(BigInt(token!)).toBeGreaterThanOrEqual(BigInt(newest!));
});
