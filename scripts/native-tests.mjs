// Shared by the scripts that build and run the C++ tests of native/core.

import { spawnSync } from 'node:child_process';
import os from 'node:os';

import { packageRoot } from './addon-inputs.mjs';
import { isInstalled } from './run.mjs';

/** Suffix of a variant's name: the same binary, run so that no slice of a sync wait ends. */
export const longSlices = '-long-slices';

/** The build that a variant runs, as native/test/Makefile calls it. */
export const buildOf = (/** @type {string} */ variant) => variant.replace(longSlices, '');

const sanitizerOptions = {
  ASAN_OPTIONS: 'detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1',
  TSAN_OPTIONS: 'second_deadlock_stack=1',
  UBSAN_OPTIONS: 'print_stacktrace=1',
};

/** Whether make succeeds with the Makefile of the tests. */
export const isMade = (/** @type {string} */ goal) =>
  spawnSync('make', ['-f', 'native/test/Makefile', `-j${os.availableParallelism()}`, goal], {
    cwd: packageRoot,
    stdio: 'inherit',
  }).status === 0;

/** The environment of a variant's binary. */
export const environmentOf = (/** @type {string} */ variant) => ({
  ...process.env,
  ...sanitizerOptions,
  ...(variant.endsWith(longSlices) && { STRIPELOCK_SLICES: 'none' }),
});

/** Why the tests cannot be built; undefined if they can. */
export function whatIsMissing() {
  const hint =
    'On Debian or Ubuntu: apt-get install g++ make libgtest-dev; on macOS: brew install googletest';
  if (process.platform === 'win32') return 'the C++ tests are run on Linux or macOS only';
  const compiler = process.env.CXX ?? 'c++';
  for (const tool of ['make', compiler]) {
    if (!isInstalled(tool)) return `${tool} is missing. ${hint}`;
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
 * With some combinations of kernel and compiler, ThreadSanitizer gets an address space that it cannot use, unless the
 * layout is not randomised. Returns the words to put before the command.
 *
 * @param {string} binary
 */
export function launcherFor(binary) {
  const attempt = (/** @type {string[]} */ ...words) =>
    spawnSync(words[0], words.slice(1), { encoding: 'utf8' });
  const direct = attempt(binary, '--gtest_list_tests');
  if (direct.status === 0 || !/unexpected memory mapping/.test(direct.stderr)) return [];
  const launcher = ['setarch', os.machine(), '-R'];
  return attempt(...launcher, binary, '--gtest_list_tests').status === 0 ? launcher : [];
}
