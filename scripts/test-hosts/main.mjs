// Tries the built package on Node, Bun and Deno, and prints what each can do. Builds nothing. Fails if a host does less
// than `limitations.mjs` says, or more.
//
//   node scripts/test-hosts/main.mjs [--host deno …] [--only terminated …] [--table]

import { existsSync, rmSync } from 'node:fs';
import os from 'node:os';
import { parseArgs } from 'node:util';

import { hasPostgres, PostgresServer } from '../../test/support/postgres-server.mjs';
import { addonPath } from '../build-addon.mjs';
import { inParallel, run } from '../run.mjs';
import { attempt } from './attempt.mjs';
import { checks } from './checks.mjs';
import { commandOf, hosts } from './hosts.mjs';
import { makeProject } from './project.mjs';
import { expectedTable, limitationOf, surprise } from './table.mjs';

async function main() {
  const { values } = parseArgs({
    options: {
      host: { type: 'string', multiple: true, default: [] },
      only: { type: 'string', multiple: true, default: [] },
      table: { type: 'boolean', default: false },
    },
  });
  if (values.table) return console.log(expectedTable());
  if (!existsSync(addonPath)) throw new Error('no addon to test: run `npm run build` first');
  const matches = (/** @type {readonly string[]} */ words, /** @type {string} */ text) =>
    words.length === 0 || words.some((word) => text.toLowerCase().includes(word.toLowerCase()));
  const chosen = hosts.filter(({ name }) => matches(values.host, name));
  const tried = checks.filter(({ name, title }) => matches(values.only, `${name} ${title}`));
  if (chosen.length === 0 || tried.length === 0) throw new Error('nothing matches: no host, or no check');

  // Without it, the check that needs it fails, and says so.
  const isNeeded =
    tried.some(({ name }) => name === 'bunPostgres') && chosen.some(({ kind }) => kind === 'bun');
  const postgres = isNeeded && hasPostgres ? await PostgresServer.start() : undefined;
  if (postgres) process.env['STRIPELOCK_POSTGRES_URL'] = postgres.url;
  const { project, main: program } = makeProject();
  const surprises = [];
  let made = 0;
  try {
    for (const host of chosen) {
      const began = performance.now();
      console.log(`\n── ${host.name} (${host.version})`);
      const found = new Map();
      const plain = await commandOf(host);
      const version = await run(plain[0], ['--version']);
      // A run on the wrong version would prove nothing.
      if (!version.includes(host.version)) throw new Error(`${plain[0]} is ${version}, not ${host.version}`);
      await inParallel(tried, Math.min(2, os.availableParallelism()), async ({ name, ...options }) => {
        found.set(name, await attempt(await commandOf(host, options), program, name));
      });
      for (const { name, title } of tried) {
        const failure = found.get(name);
        const unexpected = surprise(host.name, name, failure);
        made += 1;
        if (unexpected !== undefined) surprises.push(`${host.name}, ${title}: ${unexpected}`);
        const known = failure === undefined ? 'yes' : limitationOf(host.name, name)?.cell;
        console.log(`   ${(unexpected === undefined ? (known ?? '') : 'WRONG').padEnd(5)}  ${title}`);
      }
      console.log(`   ${((performance.now() - began) / 1000).toFixed(1)} s`);
    }
  } finally {
    rmSync(project, { recursive: true, force: true });
    await postgres?.stop();
  }
  console.log(`\n${expectedTable()}`);
  for (const line of surprises) console.error(`\nNOT AS EXPECTED: ${line}`);
  console.log(`\n${made - surprises.length} passed, ${surprises.length} failed`);
  process.exitCode = surprises.length === 0 ? 0 : 1;
}

await main();
