// Runs the C++ tests over faults of the core. Each must be found by the tests that it names.
//
//   node scripts/mutate.mjs [--list] [--all-tests] [word …]
//
//   --list       only compares the marks in the code with native/test/mutants.mjs
//   --all-tests  names all tests but stress that find each fault, to find the right one
//   word         only faults whose names contain one of the words
//
// A line below a comment `// mutant: <name>` in native/core is one that a promise depends on; native/test/mutants.mjs says
// what stands there instead, and who must notice. All faults are compiled into one binary, beside what is right:
// STRIPELOCK_MUTANT says which of them it has.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { mutants } from '../native/test/mutants.mjs';
import { packageRoot } from './addon-inputs.mjs';
import { environmentOf, isMade, launcherFor, whatIsMissing } from './native-tests.mjs';
import { ended, inParallel } from './run.mjs';

const core = path.join(packageRoot, 'native', 'core');
const mutated = path.join(packageRoot, 'build', 'mutants');
const binary = path.join(packageRoot, 'build', 'native-test', 'plain', 'mutants');
const everythingButStress = '-*Stress.*';
/** Far more than a few tests take on a busy machine. The tests themselves report a hang sooner than this. */
const runLimit = 120_000;
const stuckAfter = '6000';

const mark = /^ *\/\/ mutant: (\S+)$/;
/** Lines in which a fault is an expression. In the others it is one statement or several. */
const withExpression = [/^(\s*if \()(.*)(\) \{)$/, /^(\s*(?:const )?[\w:<>]+ \w+ = )(.*)(;)$/];

const chooser = `#include <cstdlib>
#include <string_view>
static bool planted(std::string_view name) {
  static const char* const chosen = std::getenv("STRIPELOCK_MUTANT");
  return chosen && chosen == name;
}
`;

/**
 * A line of code that runs `fault` if the mutant was chosen.
 *
 * @param {string} line
 * @param {string} name
 * @param {string} fault
 */
function withFault(line, name, fault) {
  for (const form of withExpression) {
    const sound = form.exec(line);
    const faulty = form.exec(fault);
    if (sound?.[1].trimStart() === faulty?.[1] && sound?.[3] === faulty?.[3] && sound && faulty)
      return `${sound[1]}planted("${name}") ? (${faulty[2]}) : (${sound[2]})${sound[3]}`;
  }
  return `if (planted("${name}")) { ${fault} } else { ${line} }`;
}

/** The sources with marks, by name and with their faults; and what is wrong with the marks. */
function readSources() {
  const sources = new Map();
  const marks = new Set();
  const wrong = [];
  for (const file of readdirSync(core, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(cc|h)$/.test(file)) continue;
    const lines = readFileSync(path.join(core, file), 'utf8').split('\n');
    for (const [at, text] of lines.entries()) {
      const [, name] = mark.exec(text) ?? [];
      if (name === undefined) continue;
      // The objects of the tests were compiled with the headers as they are.
      if (file.endsWith('.h')) wrong.push(`${name} is in a header, ${file}`);
      if (marks.has(name)) wrong.push(`${name} is marked twice`);
      marks.add(name);
      if (Object.hasOwn(mutants, name)) lines[at + 1] = withFault(lines[at + 1], name, mutants[name][0]);
      else wrong.push(`${name} is marked in ${file}, and not in native/test/mutants.mjs`);
      sources.set(file, lines);
    }
  }
  for (const name of Object.keys(mutants)) if (!marks.has(name)) wrong.push(`${name} has no mark`);
  return { sources, wrong };
}

/**
 * Beside a copy of native/core.cc are only the files with marks. It takes the others from native/core.
 *
 * @param {ReadonlyMap<string, readonly string[]>} sources
 */
function build(sources) {
  const texts = new Map([['core.cc', chooser + readFileSync(`${core}.cc`, 'utf8')]]);
  for (const [file, lines] of sources) texts.set(path.join('core', file), lines.join('\n'));
  mkdirSync(mutated, { recursive: true });
  for (const file of readdirSync(mutated, { recursive: true, encoding: 'utf8' }))
    if (file.endsWith('.cc') && !texts.has(file)) rmSync(path.join(mutated, file));
  for (const [file, text] of texts) {
    const target = path.join(mutated, file);
    mkdirSync(path.dirname(target), { recursive: true });
    // An unchanged file is not compiled again.
    if (!existsSync(target) || readFileSync(target, 'utf8') !== text) writeFileSync(target, text);
  }
  return isMade(path.relative(packageRoot, binary));
}

/**
 * Runs tests with a mutant, or with none. Returns who found it, or undefined if all of them pass.
 *
 * @param {readonly string[]} launcher
 * @param {string} tests
 * @param {string} [name]
 */
async function findersOf(launcher, tests, name) {
  const { end, stdout, stderr } = await ended([...launcher, binary, `--gtest_filter=${tests}`], {
    env: {
      ...environmentOf('plain'),
      ...(name !== undefined && { STRIPELOCK_MUTANT: name, STRIPELOCK_STUCK: stuckAfter }),
    },
    timeout: runLimit,
    killSignal: 'SIGKILL',
  });
  if (end === 0) return undefined;
  const output = `${stdout}${stderr}`;
  const failed = new Set(
    [...output.matchAll(/^\[ {2}FAILED {2}\] (\w+\.\w+)(?: \(|$)/gm)].map(([, test]) => test),
  );
  const last = [...output.matchAll(/^\[ RUN {6}\] (\S+)/gm)].at(-1)?.[1];
  return failed.size > 0 ? [...failed].join(', ') : `${last} ends with ${end}`;
}

async function main() {
  const { values, positionals } = parseArgs({
    options: { list: { type: 'boolean' }, 'all-tests': { type: 'boolean' } },
    allowPositionals: true,
  });
  const isWanted = (/** @type {string} */ name) =>
    positionals.length === 0 || positionals.some((word) => name.includes(word));
  const wanted = Object.entries(mutants).filter(([name]) => isWanted(name));
  const { sources, wrong } = readSources();
  const failed = wanted.length === 0 ? ['no such mutant'] : wrong;
  let passed = 0;
  if (values.list) {
    passed = wanted.length;
  } else if (failed.length === 0) {
    const missing = whatIsMissing();
    if (missing !== undefined) failed.push(missing);
    else if (!build(sources)) failed.push('the mutants do not build');
    else passed = await plantAll(wanted, values['all-tests'] === true, failed);
  }
  for (const text of failed) console.log(`FAILED  ${text}`);
  console.log(`\n${passed} passed, ${failed.length} failed`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}

/**
 * Returns how many were found, and adds to `failed` which were not.
 *
 * @param {readonly (readonly [string, readonly [fault: string, tests: string]])[]} wanted
 * @param {boolean} byAll
 * @param {string[]} failed
 */
async function plantAll(wanted, byAll, failed) {
  const launcher = launcherFor(binary);
  const withoutFault = await findersOf(launcher, wanted.map(([, [, tests]]) => tests).join(':'));
  if (withoutFault !== undefined) failed.push(`without a fault: ${withoutFault}`);
  let passed = 0;
  await inParallel(wanted, 4 * os.availableParallelism(), async ([name, [, tests]]) => {
    const started = Date.now();
    const finders = await findersOf(launcher, byAll ? everythingButStress : tests, name);
    if (finders === undefined) {
      failed.push(`${name} is not found by ${tests}`);
      return;
    }
    passed++;
    console.log(`${name}: ${finders} (${((Date.now() - started) / 1000).toFixed(0)} s)`);
  });
  return passed;
}

await main();
