import { expect, it } from 'vitest';
import { runExample, type Run } from './run-example.js';
import { onEachServer } from './servers.js';

function expectSuccessors({ code, stdout, stderr }: Run): void {
  expect(code, stderr).toBe(0);
  console.log(stdout);
  const lines = stdout.trim().split('\n');
  const led = [0, 1, 2, 4].map((i) => /: (process \d) leads under token (\d+),/.exec(lines[i]!)!);
  const [one, two, three, last] = led.map(([, name]) => name);
  expect(lines.map((line) => line.replace(/: process .*/, ''))).toEqual([
    'the first election',
    `${one} was killed`,
    `${two} was stopped`,
    `${two} goes on, and does not lead any more`,
    `${three} has resigned`,
  ]);
  expect(new Set([one, two, three]).size).toBe(3);
  expect(last).toBe(two);
  const tokens = led.map(([, , token]) => BigInt(token!));
  expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
}

it('leaders that are killed, stopped or resign have successors on SQLite, or it says which Node it needs', async () => {
  const run = await runExample('leader/leader.mjs', ['--store', 'sqlite', '--ttl', '2000']);
  if (process.getBuiltinModule('node:sqlite')) expectSuccessors(run);
  else expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining('needs Node 22.13') as string });
});

onEachServer('leaders that are killed, stopped or resign have successors', async (args) => {
  expectSuccessors(await runExample('leader/leader.mjs', [...args, '--ttl', '2000']));
});
