// Runs some of the tests that import modules of `lib` themselves, with one mutation at a time.
//
// They run in a copy of the sources, in build/mutate/javascript. Tests of the built package would not see a mutation there.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';

/**
 * @typedef {import('../test/mutations/list.mjs').Mutation} Mutation
 *
 * @typedef {object} Run Of some tests.
 * @property {number | null} status
 * @property {boolean} late
 * @property {boolean} ran Whether any test ran.
 * @property {string} output
 */

const tree = path.join(packageRoot, 'build', 'mutate', 'javascript');
const copied = ['lib', 'test', 'package.json', 'tsconfig.json', 'tsconfig.test.json', 'vitest.config.ts'];
const linked = ['node_modules', 'dist', 'unbundled', 'addon.cjs'];
/** For one run of a few tests. Far more than they take on a busy machine: a run that takes longer hangs. */
const runLimit = 120_000;

export class JavaScriptMutants {
  constructor() {
    rmSync(tree, { recursive: true, force: true });
    mkdirSync(tree, { recursive: true });
    for (const name of copied)
      cpSync(path.join(packageRoot, name), path.join(tree, name), { recursive: true });
    for (const name of linked) symlinkSync(path.join(packageRoot, name), path.join(tree, name));
  }

  /**
   * @param {string} tests A file, and after a colon a part of the names of its tests.
   * @returns {Run}
   */
  #run(tests) {
    const [file = '', name = ''] = tests.split(':');
    const vitest = path.join(packageRoot, 'node_modules', 'vitest', 'vitest.mjs');
    const { status, error, stdout, stderr } = spawnSync(
      process.execPath,
      [vitest, 'run', file, '-t', name, '--reporter=verbose'],
      {
        cwd: tree,
        encoding: 'utf8',
        env: { ...process.env, NO_COLOR: '1' },
        timeout: runLimit,
        killSignal: 'SIGKILL',
        maxBuffer: 64 << 20,
      },
    );
    const output = stdout + stderr;
    return {
      status,
      late: /** @type {NodeJS.ErrnoException | undefined} */ (error)?.code === 'ETIMEDOUT',
      ran: /^ *Tests .*\d+ (?:passed|failed)/m.test(output),
      output,
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
    /** @type {Map<string, Run>} */
    const runs = new Map();
    return mutations.filter(({ name, tests }) => {
      const run = runs.get(tests) ?? this.#run(tests);
      runs.set(tests, run);
      const { status, ran, output } = run;
      if (status === 0 && ran) return true;
      const why = ran
        ? `without the mutation ${tests} fails:\n${output.slice(-2000)}`
        : `no test is called ${tests}`;
      report.fail(`${name}: ${why}`);
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
      const { status, late, ran, output } = this.#run(tests);
      if (late) return { killed: true, how: 'hangs' };
      if (status === 0) return { killed: false, how: 'survived' };
      // A mutation that cannot be loaded shows nothing.
      if (!ran) return { killed: false, how: `does not run\n${output.slice(-2000)}` };
      const failed = [...output.matchAll(/^ *× (.*?)(?: \d+ms)?$/gm)].map(([, test]) => test);
      return { killed: true, how: `fails ${[...new Set(failed)].join('; ')}` };
    } finally {
      for (const file of files.keys())
        writeFileSync(path.join(tree, file), readFileSync(path.join(packageRoot, file)));
    }
  }
}
