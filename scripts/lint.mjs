// Runs every static check. Each finding is an error. A failing check does not stop the others, so one run shows
// everything.
//
//   node scripts/lint.mjs            check; tools for C++ that are not installed are named and skipped
//   node scripts/lint.mjs --strict   check; a missing tool is a failure (as in CI)
//   node scripts/lint.mjs --fix      format and repair what can be

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

import { addonSources, includeDirOf, packageRoot } from './addon-inputs.mjs';
import { unknownNames } from './lint/names.mjs';
import { readSources } from './lint/sources.mjs';
import { systemHeaders } from './prebuild/build.mjs';
import { inParallel, run as runProgram } from './run.mjs';

const require = createRequire(import.meta.url);
const fix = process.argv.includes('--fix');
const strict = process.argv.includes('--strict');

const PASSED = 'passed';
const FAILED = 'FAILED';
const SKIPPED = 'skipped';

/**
 * Runs a check. If it fails, prints its output in one piece, because several checks run at once.
 *
 * @param {string} command
 * @param {readonly string[]} commandArguments
 */
async function run(command, commandArguments) {
  try {
    await runProgram(command, commandArguments, { cwd: packageRoot });
    return PASSED;
  } catch (error) {
    console.error(/** @type {Error} */ (error).message);
    return FAILED;
  }
}

/**
 * Runs the program of an installed package with this node.
 *
 * @param {string} packageName
 * @param {string} program Its path in the package.
 * @param {readonly string[]} commandArguments
 */
function runPackage(packageName, program, commandArguments) {
  const folder = path.dirname(require.resolve(`${packageName}/package.json`));
  return run(process.execPath, [path.join(folder, program), ...commandArguments]);
}

/** @param {string} tool */
function versionOf(tool) {
  const { status, stdout } = spawnSync(tool, ['--version'], { encoding: 'utf8' });
  return status === 0 ? /version (\S+)/.exec(stdout)?.[1] : undefined;
}

/** @param {string} tool */
function missing(tool) {
  console.error(
    `${tool} is not installed. On Debian or Ubuntu: apt-get install ${tool}; on macOS: brew install llvm`,
  );
  return strict ? FAILED : SKIPPED;
}

function nativeFiles() {
  const native = path.join(packageRoot, 'native');
  if (!existsSync(native)) return [];
  return readdirSync(native, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(cc|h)$/.test(name))
    .sort()
    .map((name) => path.join('native', name));
}

function prettier() {
  return runPackage('prettier', 'bin/prettier.cjs', [fix ? '--write' : '--check', '--log-level=warn', '.']);
}

function eslint() {
  return runPackage('eslint', 'bin/eslint.js', ['--max-warnings=0', ...(fix ? ['--fix'] : []), '.']);
}

const tsc = (/** @type {string} */ project) =>
  runPackage('typescript', 'bin/tsc', ['--noEmit', '-p', project]);

async function clangFormat() {
  const version = versionOf('clang-format');
  if (version === undefined) return missing('clang-format');
  const outcome = await run('clang-format', [...(fix ? ['-i'] : ['--dry-run', '-Werror']), ...nativeFiles()]);
  if (outcome === FAILED) console.error(`clang-format ${version}; the layout is that of version 14`);
  return outcome;
}

async function clangTidy() {
  if (versionOf('clang-tidy') === undefined) return missing('clang-tidy');
  const flags = [
    '-std=c++20',
    '-Wall',
    '-Wextra',
    '-Inative',
    ...['node-addon-api', 'xxhash-addon'].map((name) => `-isystem${includeDirOf(name)}`),
    `-isystem${path.join(systemHeaders(), 'include/node')}`,
    '-DNAPI_VERSION=8',
    '-DNODE_ADDON_API_DISABLE_CPP_EXCEPTIONS',
    '-fno-exceptions',
    '-pthread',
    // Both sources consist of other files. The analyzer follows few calls: all of them would take six times as long, and
    // the tests run under sanitizers.
    ...['-analyzer-opt-analyze-headers', '-analyzer-config', 'mode=shallow'].flatMap((word) => [
      '-Xclang',
      word,
    ]),
  ];
  let outcome = PASSED;
  await inParallel(addonSources, os.availableParallelism(), async (file) => {
    if ((await run('clang-tidy', ['--quiet', file, '--', ...flags])) === FAILED) outcome = FAILED;
  });
  return outcome;
}

/** @param {readonly string[]} wrong A line for each finding. */
function verdict(wrong) {
  for (const line of wrong) console.error(line);
  return wrong.length === 0 ? PASSED : FAILED;
}

const checks = fix
  ? { eslint, prettier, 'clang-format': clangFormat }
  : {
      prettier,
      eslint,
      'tsc lib': () => tsc('tsconfig.json'),
      'tsc tests': () => tsc('tsconfig.test.json'),
      'tsc tools': () => tsc('tsconfig.tools.json'),
      names: () => verdict(unknownNames(readSources(packageRoot))),
      'marks of the core': () => run(process.execPath, ['scripts/mutate.mjs', '--list']),
      'marks of the model': () => run(process.execPath, ['model/run.mjs', '--list']),
      api: () => run(process.execPath, ['scripts/docs/api.mjs', '--check']),
      options: () => run(process.execPath, ['scripts/docs/options.mjs', '--check']),
      'clang-format': clangFormat,
      'clang-tidy': clangTidy,
    };

/** @type {Record<string, string>} */
const outcomes = {};
await inParallel(Object.entries(checks), fix ? 1 : os.availableParallelism(), async ([name, check]) => {
  outcomes[name] = await check();
  console.log(`── ${name}: ${outcomes[name]}`);
});
const lines = Object.keys(checks).map((name) => `${name.padEnd(20)} ${outcomes[name]}`);
console.log(`\n${lines.join('\n')}`);
process.exitCode = Object.values(outcomes).includes(FAILED) ? 1 : 0;
