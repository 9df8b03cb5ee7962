// Checks the model in all configurations, and checks that each of its faults is found.
//
//   node model/run.mjs [--full] [--list] [part of the name of a configuration or of a fault …]
//
// The faults are called `not <name>`, so that the word `not` checks all of them.
// A fault stands in mutants.mjs, instead of the line below a comment `/* mutant: <name> */` of the model. `--list` only
// compares the two.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { configurations } from './configurations.mjs';
import { mutants } from './mutants.mjs';

/** @typedef {import('./configurations.mjs').Configuration} Configuration */

const here = path.dirname(fileURLToPath(import.meta.url));
/** The depth of a search, in steps. One that would go deeper fails. */
const DEPTH = 4_000_000;
/** Megabytes for one search. One that would take more fails. */
const MEMORY = 1900;
/** Compiling would take most of the time. tcc takes a hundredth of it, and its code is nearly as fast. */
const compiler = [process.env.CC, 'tcc', 'cc'].find((name) => name !== undefined && runs(name, '-v'));

/**
 * @param {string} tool
 * @param {string} option
 */
function runs(tool, option) {
  return spawnSync(tool, [option], { stdio: 'ignore' }).status === 0;
}

function whatIsMissing() {
  const hint = 'On Debian or Ubuntu: apt-get install spin tcc; on macOS: brew install spin';
  if (!runs('spin', '-V')) return `spin is missing. ${hint}`;
  return compiler === undefined ? `a C compiler is missing. ${hint}` : undefined;
}

/**
 * Runs a program; resolves with its exit code and all it wrote.
 *
 * @param {string} command
 * @param {readonly string[]} commandArguments
 * @param {string} cwd
 * @returns {Promise<{ code: number | string | null, output: string }>}
 */
function run(command, commandArguments, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, commandArguments, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    child.stdout.on('data', (data) => (output += data));
    child.stderr.on('data', (data) => (output += data));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code: code ?? signal, output }));
  });
}

/** The files of the model, as lines. */
const model = new Map(
  readdirSync(here)
    .filter((name) => name.endsWith('.pml'))
    .map((name) => [name, readFileSync(path.join(here, name), 'utf8').split('\n')]),
);
const markOf = (/** @type {string} */ line) => /^ *\/\* mutant: (\S+) \*\/$/.exec(line)?.[1];

/** The faults of the marks. */
function wrongMarks() {
  const marks = [...model.values()]
    .flat()
    .map(markOf)
    .filter((name) => name !== undefined);
  return [
    ...marks.filter((name, at) => marks.indexOf(name) !== at).map((name) => `${name} is marked twice`),
    ...marks.filter((name) => !Object.hasOwn(mutants, name)).map((name) => `${name} is not in mutants.mjs`),
    ...Object.keys(mutants)
      .filter((name) => !marks.includes(name))
      .map((name) => `${name} has no mark`),
  ];
}

/**
 * Puts the model into a folder, with a fault or without.
 *
 * @param {string} folder
 * @param {Configuration} configuration
 * @param {string} [fault]
 */
function writeModel(folder, configuration, fault) {
  mkdirSync(folder);
  for (const [name, lines] of model) {
    const at = lines.findIndex((line) => fault !== undefined && markOf(line) === fault);
    const written = at < 0 ? lines : lines.with(at + 1, mutants[/** @type {string} */ (fault)][0]);
    writeFileSync(path.join(folder, name), written.join('\n'));
  }
  const definitions = Object.entries(configuration.define).map(
    ([name, value]) => `#define ${name} ${value}\n`,
  );
  writeFileSync(
    path.join(folder, 'run.pml'),
    `${definitions.join('')}#include "${configuration.model ?? 'stripe_word.pml'}"\n`,
  );
}

/**
 * Builds the verifier and searches. Returns the fault that it finds, or undefined for a complete search without one.
 *
 * @param {string} folder
 * @param {Configuration} configuration
 * @returns {Promise<{ found?: string, states: number }>}
 */
async function search(folder, configuration) {
  const generated = await run('spin', ['-a', 'run.pml'], folder);
  if (generated.code !== 0 || /error/i.test(generated.output)) throw new Error(generated.output);
  const flags = configuration.progress ? ['-DNFAIR=3'] : ['-DSAFETY'];
  // Not optimised: optimising one huge function takes longer than it saves.
  const built = await run(
    compiler ?? 'cc',
    ['-O0', '-w', '-DCOLLAPSE', `-DMEMLIM=${MEMORY}`, ...flags, '-o', 'pan', 'pan.c'],
    folder,
  );
  if (built.code !== 0) throw new Error(built.output);
  const options = configuration.progress ? ['-a', '-f'] : [];
  const { code, output } = await run('./pan', [`-m${DEPTH}`, '-n', ...options], folder);
  const found = /^pan:\d+: (.*) \(at depth \d+\)$/m.exec(output)?.[1];
  const states = Number(/(\d+) states, stored/.exec(output)?.[1]);
  if (found !== undefined) return { found, states };
  const checks = configuration.progress
    ? /acceptance {3}cycles\s+\+ \(fairness enabled\)/
    : /assertion violations\s+\+[^]*invalid end states\s+\+/;
  const isComplete =
    code === 0 &&
    checks.test(output) &&
    /errors: 0/.test(output) &&
    !/error:|not completed|reached memory/i.test(output);
  if (!isComplete) throw new Error(`the search is not complete (${code}):\n${output}`);
  return { states };
}

/**
 * @param {string} folder
 * @param {Configuration} configuration
 */
async function checkConfiguration(folder, configuration) {
  writeModel(folder, configuration);
  const { found, states } = await search(folder, configuration);
  if (found !== undefined) throw new Error(found);
  return `${states} states`;
}

/**
 * @param {string} folder
 * @param {string} fault
 */
async function checkMutant(folder, fault) {
  const [, by, as] = mutants[fault];
  const configuration = configurations.find(({ name }) => name === by);
  if (configuration === undefined) throw new Error(`no configuration ${by}`);
  writeModel(folder, configuration, fault);
  const { found } = await search(folder, configuration);
  if (found === undefined) throw new Error(`not found by ${by}`);
  if (!found.includes(as)) throw new Error(`found by ${by} for another reason: ${found}`);
  return `${by}: ${as}`;
}

async function main() {
  const { values, positionals: words } = parseArgs({
    options: { full: { type: 'boolean' }, list: { type: 'boolean' } },
    allowPositionals: true,
  });
  const missing = values.list ? undefined : whatIsMissing();
  const wrong = missing === undefined ? wrongMarks() : [missing];
  for (const text of wrong) console.error(`model: ${text}`);
  if (wrong.length > 0 || values.list) {
    process.exitCode = Math.min(wrong.length, 1);
    return;
  }
  const checks = [
    ...configurations
      .filter((it) => values.full || !it.full || words.includes(it.name))
      .map((it) => ({ name: it.name, check: (/** @type {string} */ at) => checkConfiguration(at, it) })),
    ...Object.keys(mutants).map((name) => ({
      name: `not ${name}`,
      check: (/** @type {string} */ at) => checkMutant(at, name),
    })),
  ].filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  const root = mkdtempSync(path.join(os.tmpdir(), 'stripelock-model-'));
  let passed = 0;
  let failed = 0;
  const waiting = [...checks.entries()];
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, { name, check }] = next;
      const started = performance.now();
      const folder = path.join(root, String(index));
      try {
        const result = await check(folder);
        passed++;
        console.log(`${name}: ${result}, ${((performance.now() - started) / 1000).toFixed(1)} s`);
      } catch (error) {
        failed++;
        console.log(`${name}: FAILED: ${/** @type {Error} */ (error).message}`);
      }
      rmSync(folder, { recursive: true, force: true });
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(4, os.availableParallelism()) }, worker));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}

await main();
