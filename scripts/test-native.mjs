// Builds and runs the C++ tests of native/core in every variant: plain, the portable parking, and the sanitizers.
// No suppressions; a sanitizer's report fails the variant. With `-long-slices` the same binary runs again, and sync
// waits do not check their state every 20 ms. That check would hide a lost wake-up, which now hangs the test.
//
//   node scripts/test-native.mjs [variant …] [--gtest_… …]

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { buildOf, environmentOf, launcherFor, longSlices, whatIsMissing } from './native-tests.mjs';

const allVariants = ['plain', 'portable', 'asan', 'tsan'].flatMap((build) => [build, build + longSlices]);
const runLimit = 10 * 60_000;

/**
 * @param {string} command
 * @param {readonly string[]} commandArguments
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function run(command, commandArguments, options = {}) {
  return spawnSync(command, commandArguments, { cwd: packageRoot, stdio: 'inherit', ...options });
}

/**
 * Builds and runs one variant. A run that crashed or tested nothing does not count as passed.
 *
 * @param {string} variant
 * @param {readonly string[]} testArguments
 */
function testVariant(variant, testArguments) {
  console.log(`\n── ${variant}`);
  const build = buildOf(variant);
  const jobs = `-j${os.availableParallelism()}`;
  if (run('make', ['-f', 'native/test/Makefile', `VARIANT=${build}`, jobs]).status !== 0) {
    return { passed: 0, failed: 1, note: 'does not build' };
  }
  const folder = path.join(packageRoot, 'build', 'native-test', build);
  const binary = path.join(folder, 'core_test');
  const report = path.join(folder, 'report.json');
  mkdirSync(folder, { recursive: true });
  rmSync(report, { force: true });

  const command = [
    ...launcherFor(binary),
    binary,
    '--gtest_brief=1',
    `--gtest_output=json:${report}`,
    ...testArguments,
  ];
  const result = run(command[0], command.slice(1), {
    env: environmentOf(variant),
    timeout: runLimit,
    killSignal: 'SIGKILL',
  });
  if (!existsSync(report))
    return { passed: 0, failed: 1, note: `ended early (${result.signal ?? result.status})` };
  const { tests, failures, disabled } = JSON.parse(readFileSync(report, 'utf8'));
  const passed = tests - failures - disabled;
  if (passed + failures === 0) return { passed, failed: 1, note: 'ran no tests' };
  if (result.status !== 0 && failures === 0) return { passed, failed: 1, note: `exit code ${result.status}` };
  return { passed, failed: failures, note: '' };
}

function main() {
  const words = process.argv.slice(2);
  const testArguments = words.filter((word) => word.startsWith('--'));
  const variants = words.filter((word) => !word.startsWith('--'));
  const unknown = variants.filter((variant) => !allVariants.includes(variant));
  const missing =
    unknown.length > 0 ? `no variant ${unknown.join(', ')}: ${allVariants.join(', ')}` : whatIsMissing();
  if (missing !== undefined) {
    console.error(`test:native: ${missing}`);
    process.exitCode = 1;
    return;
  }

  let passed = 0;
  let failed = 0;
  const lines = [];
  for (const variant of variants.length > 0 ? variants : allVariants) {
    const result = testVariant(variant, testArguments);
    passed += result.passed;
    failed += result.failed;
    lines.push(
      `${variant.padEnd(20)} ${result.passed} passed, ${result.failed} failed ${result.note}`.trimEnd(),
    );
  }
  console.log(`\n${lines.join('\n')}\n\n${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main();
