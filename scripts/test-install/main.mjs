// Installs the package as users do, with each package manager and in each kind of project, without a compiler on the
// PATH, and runs each project: all must use the native engine, without a warning. Fails otherwise.
//
//   node scripts/test-install/main.mjs              every manager with ESM and CommonJS, every use with npm 12 and pnpm 12
//   node scripts/test-install/main.mjs --all        every manager with every use
//   node scripts/test-install/main.mjs --manager yarn --use ESM      only those
//   node scripts/test-install/main.mjs --tarball <file>              another tarball
//
// The tarball contains the addon that was built here in place of the prebuilt binary of this machine.

import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, existsSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { packLocally } from '../local-package.mjs';
import { machineTarget } from '../prebuild/targets.mjs';
import { inParallel } from '../run.mjs';
import { attempt } from './attempt.mjs';
import { managers } from './managers.mjs';
import { uses } from './uses.mjs';

/** @typedef {{ manager: import('./managers.mjs').Manager, use: import('./uses.mjs').Use }} Case */

const modules = new Set(['ESM', 'CommonJS']);

/**
 * Every manager with both kinds of modules, and every use with two managers: the other pairs take long and show little
 * more.
 */
const usual = (/** @type {string} */ manager, /** @type {string} */ use) =>
  modules.has(use) || manager === 'npm 12' || manager === 'pnpm 12';

/**
 * The environment of a user's shell, without what the npm that runs this has set, and without compiler, make or Python:
 * a PATH that holds node and a shell.
 *
 * @param {string} folder
 */
function usersEnvironment(folder) {
  const ours = /^(npm_|STRIPELOCK_|INIT_CWD$|NODE_(OPTIONS|ENV)$|VITEST|CI$|CC$|CXX$|COLOR$|FORCE_COLOR$)/i;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  if (process.platform === 'win32') return env;
  const bin = path.join(folder, 'bin');
  mkdirSync(bin);
  symlinkSync(process.execPath, path.join(bin, 'node'));
  const shell = ['/bin/sh', '/usr/bin/sh'].find((file) => existsSync(file));
  if (shell === undefined) throw new Error('there is no shell');
  symlinkSync(realpathSync(shell), path.join(bin, 'sh'));
  return { ...env, PATH: bin, CC: 'false', CXX: 'false', NO_COLOR: '1' };
}

/** @returns {{ chosen: Case[], tarball: string | undefined }} */
function chosenCases() {
  const { values } = parseArgs({
    options: {
      all: { type: 'boolean', default: false },
      manager: { type: 'string', multiple: true, default: [] },
      use: { type: 'string', multiple: true, default: [] },
      tarball: { type: 'string' },
    },
  });
  const named = values.manager.length + values.use.length > 0;
  const matches = (/** @type {string[]} */ words, /** @type {string} */ name) =>
    words.length === 0 || words.some((word) => name.toLowerCase().startsWith(word.toLowerCase()));
  const chosen = managers.flatMap((manager) =>
    uses
      .filter((use) => matches(values.manager, manager.name) && matches(values.use, use.name))
      .filter((use) => values.all || named || usual(manager.name, use.name))
      .map((use) => ({ manager, use })),
  );
  if (chosen.length === 0) throw new Error('nothing matches: no manager, or no use');
  return { chosen, tarball: values.tarball };
}

async function main() {
  const { chosen, tarball: given } = chosenCases();
  const folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-install-')));
  let wrong = 0;
  try {
    const tarball =
      given === undefined ? packLocally(path.join(folder, 'release')).tarball : path.resolve(given);
    console.log(
      given === undefined
        ? `the tarball has one binary: the addon that was built here, as that of ${machineTarget()}`
        : `the tarball is ${tarball}, ${readFileSync(tarball).length} bytes`,
    );
    console.log(`Node ${process.version}; no compiler, make or Python on the PATH\n`);
    const env = usersEnvironment(folder);
    const programs = new Map();
    for (const { manager } of chosen) {
      if (!programs.has(manager)) programs.set(manager, await manager.program(manager.version));
    }
    await inParallel(
      chosen.entries(),
      Math.min(2, os.availableParallelism()),
      async ([index, { manager, use }]) => {
        const began = performance.now();
        const project = path.join(folder, `project-${index}`);
        const program = programs.get(manager);
        const failure = await attempt({ manager, program, use, tarball, folder: project, env });
        const seconds = ((performance.now() - began) / 1000).toFixed(1);
        const verdict = failure === undefined ? 'native' : 'WRONG';
        console.log(
          `${verdict.padEnd(7)} ${manager.name.padEnd(21)} ${use.name.padEnd(11)} ${seconds.padStart(5)} s`,
        );
        if (failure !== undefined) {
          wrong += 1;
          console.error(failure);
        }
        rmSync(project, { recursive: true, force: true });
      },
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`\n${chosen.length - wrong} passed, ${wrong} failed`);
  process.exitCode = wrong === 0 ? 0 : 1;
}

await main();
