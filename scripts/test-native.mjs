// Builds and runs the C++ tests of native/core in every variant: plain, the portable parking, and the sanitizers.
// No suppressions; a sanitizer's report fails the variant. With `-long-slices` the same binary runs again, and sync
// waits do not check their state every 20 ms. That check would hide a lost wake-up, which now hangs the test.
//
//   node scripts/test-native.mjs [variant …] [--gtest_… …]

import { existsSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { buildOf, environmentOf, isMade, launcherFor, longSlices, whatIsMissing } from './native-tests.mjs';
import { ended, inParallel } from './run.mjs';

/** Counts cache misses on a simulated machine, which needs a futex and GNU's linker. It has only its own tests. */
const coherence = 'coherence';
const variantsOfCore = ['plain', 'portable', 'asan', 'tsan'].flatMap((build) => [build, build + longSlices]);
const allVariants = process.platform === 'linux' ? [...variantsOfCore, coherence] : variantsOfCore;
const runLimit = 10 * 60_000;

/**
 * Runs one variant. A run that crashed or tested nothing does not count as passed.
 *
 * @param {string} variant
 * @param {readonly string[]} testArguments
 */
async function testVariant(variant, testArguments) {
  const folder = path.join(packageRoot, 'build', 'native-test', buildOf(variant));
  const binary = path.join(folder, 'core_test');
  const report = path.join(folder, `${variant}.json`);
  rmSync(report, { force: true });

  const { end, stdout, stderr } = await ended(
    [...launcherFor(binary), binary, '--gtest_brief=1', `--gtest_output=json:${report}`, ...testArguments],
    { cwd: packageRoot, env: environmentOf(variant), timeout: runLimit, killSignal: 'SIGKILL' },
  );
  // Printed in one piece, because several variants run at once.
  console.log(`\n── ${variant}\n${stdout}${stderr}`.trimEnd());
  if (!existsSync(report)) return { variant, passed: 0, failed: 1, note: `ended early (${end})` };
  const { tests, failures, disabled } = JSON.parse(readFileSync(report, 'utf8'));
  const passed = tests - failures - disabled;
  if (passed + failures === 0) return { variant, passed, failed: 1, note: 'ran no tests' };
  if (end !== 0 && failures === 0) return { variant, passed, failed: 1, note: `exit code ${end}` };
  return { variant, passed, failed: failures, note: '' };
}

async function main() {
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

  const byDefault = testArguments.length > 0 ? variantsOfCore : allVariants;
  const wanted = variants.length > 0 ? variants : byDefault;
  const built = new Map(
    [...new Set(wanted.map(buildOf))].map((build) => [build, isMade(`VARIANT=${build}`)]),
  );
  /** @type {Awaited<ReturnType<typeof testVariant>>[]} */
  const results = [];
  // Tests wait for most of their time.
  await inParallel(wanted, 2 * os.availableParallelism(), async (variant) => {
    results.push(
      built.get(buildOf(variant))
        ? await testVariant(variant, testArguments)
        : { variant, passed: 0, failed: 1, note: 'does not build' },
    );
  });

  const lines = results.map(({ variant, passed, failed, note }) =>
    `${variant.padEnd(20)} ${passed} passed, ${failed} failed ${note}`.trimEnd(),
  );
  const sum = (/** @type {'passed' | 'failed'} */ count) =>
    results.reduce((total, result) => total + result[count], 0);
  console.log(`\n${lines.join('\n')}\n\n${sum('passed')} passed, ${sum('failed')} failed`);
  process.exitCode = sum('failed') === 0 ? 0 : 1;
}

await main();
