import { expect, it } from 'vitest';
import { runExample, type Run } from './run-example.js';
import { onEachServer } from './servers.js';

function expectOneAuthorEachNight({ code, stdout, stderr }: Run): void {
  expect(code, stderr).toBe(0);
  const [, crashed] = /^(process \d) night 1: crashes half-way$/m.exec(stdout)!;
  const authors = [...stdout.matchAll(/^night (\d): done by (process \d) under token (\d+)$/gm)];
  expect(authors.map(([, night]) => night)).toEqual(['1', '2']);
  expect(authors[0]![2]).not.toBe(crashed);
  for (const [, night, author] of authors) {
    expect(stdout).toContain(`${author} night ${night}: has done the job`);
    // The others came, too, and had nothing to do: all of three but the one that crashed.
    const others = stdout.matchAll(new RegExp(`^process \\d night ${night}: finds the job done$`, 'gm'));
    expect([...others], stdout + stderr).toHaveLength(1);
  }
  expect(BigInt(authors[1]![3]!) > BigInt(authors[0]![3]!)).toBe(true);
}

it('the cron job runs once a night on SQLite, also after a crash, or says which Node it needs', async () => {
  const run = await runExample('cron/cron.mjs', ['--store', 'sqlite', '--nights', '2']);
  if (process.getBuiltinModule('node:sqlite')) expectOneAuthorEachNight(run);
  else expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining('needs Node 22.13') as string });
});

onEachServer('the cron job runs once a night, also after a crash,', async (args) => {
  expectOneAuthorEachNight(await runExample('cron/cron.mjs', [...args, '--nights', '2']));
});
