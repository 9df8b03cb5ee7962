import { expect, it } from 'vitest';
import { runExample, type Run } from './run-example.js';
import { onEachServer } from './servers.js';

function expectSuccessors({ code, stdout, stderr }: Run): void {
  expect(code, stderr).toBe(0);
  console.log(stdout);
  const [first, second, third, ...rest] = stdout.trim().split('\n');
  const led = [first!, second!, third!].map((line) => /: (process \d) leads under token (\d+),/.exec(line)!);
  const [one, two, three] = led.map(([, name]) => name);
  expect(first).toMatch(/^the first election:/);
  expect(second).toMatch(new RegExp(`^${one} was killed:`));
  expect(third).toMatch(new RegExp(`^${two} has resigned:`));
  expect(new Set([one, two, three]).size).toBe(3);
  const tokens = led.map(([, , token]) => BigInt(token!));
  expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
  expect(rest).toEqual([]);
}

it('a leader that is killed and one that resigns have successors on SQLite, or it says which Node it needs', async () => {
  const run = await runExample('leader/leader.mjs', ['--store', 'sqlite', '--ttl', '1000']);
  if (process.getBuiltinModule('node:sqlite')) expectSuccessors(run);
  else expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining('needs Node 22.13') as string });
});

onEachServer('a leader that is killed and one that resigns have successors', async (args) => {
  expectSuccessors(await runExample('leader/leader.mjs', [...args, '--ttl', '1000']));
});
