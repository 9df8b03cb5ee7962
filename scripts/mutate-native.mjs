// Builds the C++ tests of native/core with one mutation at a time, and runs some of them.
//
// The copy of the sources and its objects stay in build/mutate, so a mutation recompiles only the objects that depend
// on its file. After a mutation its files and objects get back their contents and modification times, so that make has
// nothing to build.

import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { includeDirOf, packageRoot } from './addon-inputs.mjs';
import { buildOf, environmentOf, launcherFor, whatIsMissing } from './native-tests.mjs';

/**
 * @typedef {import('../test/mutations/list.mjs').Mutation} Mutation
 *
 * @typedef {object} Run Of some tests.
 * @property {number | null} status
 * @property {NodeJS.Signals | null} signal
 * @property {boolean} late
 * @property {string} output
 */

const tree = path.join(packageRoot, 'build', 'mutate');
const sourceFolders = ['native/core', 'native/test'];
/**
 * For one run of a few tests. Far more than they take on a busy machine: a run that takes longer hangs. The tests
 * themselves report a hang sooner than they usually do.
 */
const runLimit = 120_000;
const stuckAfter = '6000';

/**
 * @param {string} from
 * @param {string} to
 */
function copyWithTime(from, to) {
  mkdirSync(path.dirname(to), { recursive: true });
  copyFileSync(from, to);
  const { atime, mtime } = statSync(from);
  utimesSync(to, atime, mtime);
}

/**
 * @param {string} one
 * @param {string} other
 */
const isAsOld = (one, other) => existsSync(other) && statSync(one).mtimeMs === statSync(other).mtimeMs;

/**
 * Whether the tests in one folder were linked later than those in the other.
 *
 * @param {string} folder
 * @param {string} other
 */
function isNewer(folder, other) {
  const [time, otherTime] = [folder, other].map(
    (one) => statSync(path.join(one, 'core_test'), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  );
  return time > otherTime;
}

/**
 * Every file below a folder, relative to it.
 *
 * @param {string} folder
 */
function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}

/**
 * Makes a folder equal to another one: contents, times, and nothing else.
 *
 * @param {string} from
 * @param {string} to
 * @param {(file: string) => boolean} [wanted]
 */
function mirror(from, to, wanted = () => true) {
  const files = filesBelow(from).filter(wanted);
  for (const file of files) {
    if (!isAsOld(path.join(from, file), path.join(to, file))) {
      copyWithTime(path.join(from, file), path.join(to, file));
    }
  }
  const kept = new Set(files);
  for (const file of filesBelow(to)) {
    if (!kept.has(file)) rmSync(path.join(to, file));
  }
}

export class NativeMutants {
  #variant;
  #build;
  #objects;
  #pristine;
  #binary;
  #launcher;

  /** @param {string} variant */
  constructor(variant) {
    const missing = whatIsMissing();
    if (missing !== undefined) throw new Error(missing);
    this.#variant = variant;
    this.#build = buildOf(variant);
    this.#objects = path.join(tree, 'build', 'native-test', this.#build);
    this.#pristine = path.join(tree, 'pristine', this.#build);
    this.#binary = path.join(this.#objects, 'core_test');
    for (const folder of sourceFolders) mirror(path.join(packageRoot, folder), path.join(tree, folder));
    const built = path.join(packageRoot, 'build', 'native-test', this.#build);
    // Not from the objects themselves: those that an interrupted run left behind are mutated.
    mirror(isNewer(built, this.#pristine) ? built : this.#pristine, this.#objects);
    const { status, output } = this.#make();
    if (status !== 0) throw new Error(`without a mutation, the tests do not build:\n${output}`);
    mirror(this.#objects, this.#pristine);
    this.#launcher = launcherFor(this.#binary);
  }

  #make() {
    const words = ['-f', 'native/test/Makefile', `-j${os.availableParallelism()}`, `VARIANT=${this.#build}`];
    // A mutation may leave a variable unused.
    words.push(`XXHASH=${includeDirOf('xxhash-addon')}`, 'WARNINGS=-w');
    const { status, stdout, stderr } = spawnSync('make', words, { cwd: tree, encoding: 'utf8' });
    return { status, output: stdout + stderr };
  }

  /**
   * @param {string} tests
   * @param {...string} more
   */
  #run(tests, ...more) {
    const [command, ...words] = [...this.#launcher, this.#binary, `--gtest_filter=${tests}`, ...more];
    const { status, signal, error, stdout, stderr } = spawnSync(command, words, {
      cwd: tree,
      encoding: 'utf8',
      env: { STRIPELOCK_STUCK: stuckAfter, ...environmentOf(this.#variant) },
      timeout: runLimit,
      killSignal: 'SIGKILL',
      maxBuffer: 64 << 20,
    });
    return {
      status,
      signal,
      late: /** @type {NodeJS.ErrnoException | undefined} */ (error)?.code === 'ETIMEDOUT',
      output: stdout + stderr,
    };
  }

  /**
   * Returns the mutations whose tests exist and pass on the unchanged sources. Reports the others as failures.
   *
   * @template {Pick<Mutation, 'name' | 'tests'>} M
   * @param {readonly M[]} mutations
   * @param {{ fail(text: string): void }} report
   */
  withTestsThatPass(mutations, report) {
    return mutations.filter(({ name, tests }) => {
      const [known] = this.#run(tests, '--gtest_list_tests').output.match(/^ {2}\S+/m) ?? [];
      if (known === undefined) {
        report.fail(`${name}: no test is called ${tests}`);
        return false;
      }
      const { status, output } = this.#run(tests, '--gtest_brief=1');
      if (status === 0) return true;
      report.fail(`${name}: without the mutation ${tests} fails:\n${output.slice(-2000)}`);
      return false;
    });
  }

  /**
   * Whether the tests find the mutation, and how.
   *
   * @param {{ files: ReadonlyMap<string, string>, tests: string }} mutation
   * @returns {{ killed: boolean, how: string }}
   */
  test({ files, tests }) {
    for (const [file, text] of files) writeFileSync(path.join(tree, file), text);
    try {
      const { status, output } = this.#make();
      if (status !== 0) return { killed: false, how: `does not build\n${output.slice(-2000)}` };
      return verdict(this.#run(tests));
    } finally {
      for (const file of files.keys()) copyWithTime(path.join(packageRoot, file), path.join(tree, file));
      mirror(this.#pristine, this.#objects);
    }
  }
}

/** @param {Run} run */
function verdict({ status, signal, late, output }) {
  if (status === 0) return { killed: false, how: 'survived' };
  const failed = [
    ...new Set([...output.matchAll(/^\[ {2}FAILED {2}\] (\w+\.\w+)(?: \(|$)/gm)].map(([, test]) => test)),
  ];
  const last = [...output.matchAll(/^\[ RUN {6}\] (\S+)/gm)].at(-1)?.[1];
  const sanitizer = /(?:WARNING|ERROR): (\w+Sanitizer: [^(\n]*)/.exec(output)?.[1];
  const stuck = /^stuck: .*/m.exec(output)?.[0];
  const how = [];
  if (failed.length > 0) how.push(`fails ${failed.join(', ')}`);
  if (sanitizer !== undefined) how.push(sanitizer.trim());
  if (stuck !== undefined) how.push(stuck);
  if (late) how.push(`hangs in ${last}`);
  if (how.length === 0) how.push(`ends with ${signal ?? status} in ${last}`);
  return { killed: true, how: how.join('; ') };
}
