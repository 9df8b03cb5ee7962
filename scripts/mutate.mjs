// Plants mutations in a copy of the sources, one after the other. The tests that a mutation names must fail.
//
//   node scripts/mutate.mjs [--only word] [--smoke] [--list] [--all-tests]
//
//   --only word    those whose name or file contains the word; repeat it for more words
//   --smoke        a few, quickly: the copy starts with what `test:native plain` has built
//   --list         only says what there is, and that each text is found exactly once
//   --all-tests    runs all native tests but stress on each mutation and names those that fail: to find the right ones
//
// The list is test/mutations/list.mjs. A mutation passes if its tests pass without it and fail with it.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { mutations } from '../test/mutations/list.mjs';
import { packageRoot } from './addon-inputs.mjs';
import { NativeMutants } from './mutate-native.mjs';

/** @typedef {import('../test/mutations/list.mjs').Mutation} Mutation */

const everythingButStress = '-*Stress.*';

function options() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      smoke: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      'all-tests': { type: 'boolean', default: false },
    },
  });
  return values;
}

/**
 * The contents of the files that a mutation changes, by name, after the change; or why it does not apply.
 *
 * @param {Mutation} mutation
 * @returns {{ files: Map<string, string>, stale?: undefined } | { files?: undefined, stale: string }}
 */
function apply({ edits }) {
  const files = new Map();
  for (const { file, find, replace } of edits) {
    const text = files.get(file) ?? readFileSync(path.join(packageRoot, file), 'utf8');
    const parts = text.split(find);
    if (parts.length !== 2) return { stale: `occurs ${parts.length - 1} times in ${file}: ${find}` };
    files.set(file, parts.join(replace));
  }
  return { files };
}

/**
 * @param {Mutation} mutation
 * @param {readonly string[]} words
 */
const matches = ({ name, edits }, words) =>
  words.length === 0 ||
  words.some((word) => name.includes(word) || edits.some(({ file }) => file.includes(word)));

/** @param {Mutation} mutation */
const changesHeader = ({ edits }) => Number(edits.some(({ file }) => file.endsWith('.h')));

class Report {
  passed = 0;
  failed = 0;

  /** @param {string} text */
  pass(text) {
    this.passed++;
    console.log(text);
  }

  /** @param {string} text */
  fail(text) {
    this.failed++;
    console.log(`FAILED  ${text}`);
  }
}

function main() {
  const { only, smoke, list, 'all-tests': allTests } = options();
  const report = new Report();
  const wanted = mutations.filter((mutation) => matches(mutation, only));
  const planted = [];
  for (const mutation of wanted) {
    const { files, stale } = apply(mutation);
    if (stale !== undefined) {
      report.fail(`${mutation.name}: ${stale}`);
    } else if (mutation.argued !== undefined) {
      console.log(`argued   ${mutation.name}: ${mutation.argued}`);
    } else if (list) {
      report.pass(`listed   ${mutation.name}`);
    } else if (mutation.smoke === true || !smoke) {
      const tests = allTests ? everythingButStress : mutation.tests;
      planted.push({ ...mutation, files, tests });
    }
  }

  // One folder of objects for each build. Mutations of one build run one after the other.
  const variants = [...new Set(planted.map(({ variant }) => variant))];
  for (const variant of variants) {
    const mutants = new NativeMutants(variant);
    const ofVariant = planted.filter((mutation) => mutation.variant === variant);
    // Mutations of headers come last: each rebuilds nearly everything.
    ofVariant.sort((one, other) => changesHeader(one) - changesHeader(other));
    const sound = mutants.withTestsThatPass(ofVariant, report);
    for (const mutation of sound) {
      const started = Date.now();
      const { killed, how } = mutants.test(mutation);
      const seconds = ((Date.now() - started) / 1000).toFixed(0);
      if (killed) {
        report.pass(`killed   ${mutation.name} (${variant}, ${seconds} s): ${how}`);
      } else {
        report.fail(`${mutation.name} (${variant}, ${seconds} s): ${how}`);
      }
    }
  }
  if (report.passed + report.failed === 0) report.fail('no such mutation');
  console.log(`\n${report.passed} passed, ${report.failed} failed`);
  process.exitCode = report.failed === 0 ? 0 : 1;
}

main();
