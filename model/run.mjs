// Checks the model in all configurations, and checks that each mutation is found.
//
//   node model/run.mjs [--full] [configuration or part of a mutation's name …]

import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { configurations } from './configurations.mjs';
import { mutations } from './mutations.mjs';

/** @typedef {import('./configurations.mjs').Configuration} Configuration */
/** @typedef {import('./mutations.mjs').Mutation} Mutation */

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

/**
 * Puts the model into a folder, with a mutation's edits.
 *
 * @param {string} folder
 * @param {Configuration} configuration
 * @param {Mutation['edits']} edits
 */
function writeModel(folder, configuration, edits) {
  mkdirSync(folder);
  for (const name of readdirSync(here)) {
    if (name.endsWith('.pml')) cpSync(path.join(here, name), path.join(folder, name));
  }
  for (const [name, text, replacement] of edits) {
    const file = path.join(folder, name);
    const parts = readFileSync(file, 'utf8').split(text);
    if (parts.length !== 2) throw new Error(`occurs ${parts.length - 1} times in ${name}: ${text}`);
    writeFileSync(file, parts.join(replacement));
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
 * Builds the verifier and searches. What it finds, or undefined for a complete search that finds nothing.
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
  writeModel(folder, configuration, []);
  const { found, states } = await search(folder, configuration);
  if (found !== undefined) throw new Error(found);
  return `${states} states`;
}

/**
 * @param {string} folder
 * @param {Mutation} mutation
 */
async function checkMutation(folder, mutation) {
  const configuration = configurations.find(({ name }) => name === mutation.by);
  if (configuration === undefined) throw new Error(`no configuration ${mutation.by}`);
  writeModel(folder, configuration, mutation.edits);
  const { found } = await search(folder, configuration);
  if (found === undefined) throw new Error(`not found by ${mutation.by}`);
  if (!found.includes(mutation.as)) throw new Error(`found by ${mutation.by} for another reason: ${found}`);
  return `${mutation.by}: ${mutation.as}`;
}

async function main() {
  const missing = whatIsMissing();
  if (missing !== undefined) {
    console.error(`model: ${missing}`);
    process.exitCode = 1;
    return;
  }
  const full = process.argv.includes('--full');
  const wanted = process.argv.slice(2).filter((word) => word !== '--full');
  const isWanted = (/** @type {{ name: string }} */ { name }) =>
    wanted.length === 0 || wanted.some((word) => name.includes(word));
  const checks = [
    ...configurations
      .filter((it) => isWanted(it) && (full || !it.full || wanted.includes(it.name)))
      .map((it) => ({ name: it.name, check: (/** @type {string} */ at) => checkConfiguration(at, it) })),
    ...mutations
      .filter(isWanted)
      .map((it) => ({ name: `not: ${it.name}`, check: (/** @type {string} */ at) => checkMutation(at, it) })),
  ];
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
