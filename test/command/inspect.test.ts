import { statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Place, type Started } from './started.js';

// `stripelock inspect`: holders and waiters, from another process.

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.remove());

const HOLDS = [process.execPath, '-e', "console.log('runs'); process.stdin.resume()"];

async function holder(...options: string[]): Promise<Started> {
  const started = place.run(...options, '--', ...HOLDS);
  await started.says(/runs/);
  return started;
}

it('shows holders and waiters as a table', async () => {
  const first = await holder('--key', 'a key');
  const second = await holder('--shared');
  const waiter = place.run('--key', 'a key', '--', ...HOLDS);
  await waiter.says(/waits for/);
  const { code, stdout } = await place.stripelock('inspect', '--path', place.lock).ended;
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^KEY +STATE +MODE +PID +THREAD +SINCE +COMMAND$/);
  const line = (key: string, state: string, mode: string, started: Started) =>
    expect.stringMatching(
      new RegExp(`^${key} +${state} +${mode} +${started.child.pid} +0 +\\d\\d:\\d\\d:\\d\\d +\\S.*run .*$`),
    ) as string;
  expect(lines.slice(1).sort()).toEqual([
    line('\\(empty key\\)', 'holds', 'shared', second),
    line('a key', 'holds', 'exclusive', first),
    line('a key', 'waits', 'exclusive', waiter),
  ]);
});

it('shows the same as JSON', async () => {
  const began = Date.now();
  const first = await holder('--key', 'a key');
  const waiter = place.run('--key', 'a key', '--', ...HOLDS);
  await waiter.says(/waits for/);
  const { stdout } = await place.stripelock('inspect', '--path', place.lock, '--json').ended;
  const shown = JSON.parse(stdout) as { holders: { since: number }[] }[];
  const one = ({ child }: Started) => ({
    pid: child.pid,
    threadId: 0,
    title: expect.stringContaining('run') as string,
    since: expect.any(Number) as number,
  });
  expect(shown).toEqual([{ key: 'a key', mode: 'exclusive', holders: [one(first)], waiters: [one(waiter)] }]);
  const { since } = shown[0]!.holders[0]!;
  expect(since).toBeGreaterThanOrEqual(began - 1);
  expect(since).toBeLessThanOrEqual(Date.now());
});

it('reports that no process holds a key', async () => {
  await place.run('--', process.execPath, '-e', '').ended;
  const table = await place.stripelock('inspect', '--path', place.lock).ended;
  expect(table).toMatchObject({ code: 0, stdout: `no process holds or waits for a key of ${place.lock}\n` });
  const json = await place.stripelock('inspect', '--path', place.lock, '--json').ended;
  expect(json).toMatchObject({ code: 0, stdout: '[]\n' });
});

it.each([
  ['is missing', undefined],
  ['is empty', 0],
])('makes no lock file where the file %s', async (_, size) => {
  const file = path.join(place.folder, 'file');
  if (size !== undefined) writeFileSync(file, '');
  for (const format of [[], ['--json']]) {
    const { code, stdout, stderr } = await place.stripelock('inspect', '--path', file, ...format).ended;
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    expect(stderr).toBe(`stripelock: there is no lock file ${file}\n`);
    expect(statSync(file, { throwIfNoEntry: false })?.size).toBe(size);
  }
});
