// Builds and runs the C++ tests of native/core in every variant: plain, the portable parking, and the sanitizers.
// No suppressions; a sanitizer's report fails the variant. With `-long-slices` the same binary runs again, and sync
// waits do not look around every 20 ms: a lost wake-up, which that would hide, is a hang.
//
//   node scripts/test-native.mjs [variant …] [--gtest_… …]

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';

const longSlices = '-long-slices';
const allVariants = ['plain', 'portable', 'asan', 'tsan'].flatMap((build) => [build, build + longSlices]);
const runLimit = 10 * 60_000;

const sanitizerOptions = {
  ASAN_OPTIONS: 'detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1',
  TSAN_OPTIONS: 'second_deadlock_stack=1',
  UBSAN_OPTIONS: 'print_stacktrace=1',
};

function run(command, commandArguments, options = {}) {
  return spawnSync(command, commandArguments, { cwd: packageRoot, stdio: 'inherit', ...options });
}

/** What keeps the tests from being built, or undefined. */
function whatIsMissing() {
  const hint =
    'On Debian or Ubuntu: apt-get install g++ make libgtest-dev; on macOS: brew install googletest';
  if (process.platform === 'win32') return 'the C++ tests are run on Linux or macOS only';
  const compiler = process.env.CXX ?? 'c++';
  for (const tool of ['make', compiler]) {
    if (run(tool, ['--version'], { stdio: 'ignore' }).status !== 0) return `${tool} is missing. ${hint}`;
  }
  const flags = spawnSync('pkg-config', ['--cflags', 'gtest'], { encoding: 'utf8' }).stdout?.trim() ?? '';
  const probe = spawnSync(
    compiler,
    ['-std=c++20', '-E', '-x', 'c++', ...flags.split(' ').filter(Boolean), '-', '-o', os.devNull],
    { input: '#include <gtest/gtest.h>\n', stdio: ['pipe', 'ignore', 'ignore'] },
  );
  return probe.status === 0 ? undefined : `GoogleTest is missing. ${hint}`;
}

/**
 * Some pairs of kernel and compiler give ThreadSanitizer an address space that it cannot use, unless its layout is
 * not randomised. Returns the words to put before the command.
 */
function launcherFor(binary) {
  const attempt = (...words) => spawnSync(words[0], words.slice(1), { encoding: 'utf8' });
  const direct = attempt(binary, '--gtest_list_tests');
  if (direct.status === 0 || !/unexpected memory mapping/.test(direct.stderr)) return [];
  const launcher = ['setarch', os.machine(), '-R'];
  return attempt(...launcher, binary, '--gtest_list_tests').status === 0 ? launcher : [];
}

/** Builds and runs one variant; never counts a run as passed that ended badly or tested nothing. */
function testVariant(variant, testArguments) {
  console.log(`\n── ${variant}`);
  const build = variant.replace(longSlices, '');
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
    env: {
      ...process.env,
      ...sanitizerOptions,
      ...(build !== variant && { STRIPELOCK_SLICES: 'none' }),
    },
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
