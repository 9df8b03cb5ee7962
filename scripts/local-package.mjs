// The package as it is published, but with one binary: the addon that was built here, in the place of the prebuilt one for
// this machine. So tests of what users install need no toolchain for other systems.

import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { addonPath } from './build-addon.mjs';
import { binaryOf, machineTarget } from './prebuild/targets.mjs';

const require = createRequire(import.meta.url);

/**
 * Packs what is in dist/ and build/.
 *
 * @param {string} out A folder for the results.
 * @param {{ binary?: boolean }} [options] Without it nothing is native.
 * @returns {{ folder: string, tarball: string }} What the tarball contains, and the tarball.
 */
export function packLocally(out, { binary = true } = {}) {
  const prebuilds = path.join(out, 'prebuilds');
  if (binary) {
    if (!existsSync(addonPath)) throw new Error('no addon to pack: run `npm run build` first');
    const place = binaryOf(prebuilds, machineTarget());
    mkdirSync(path.dirname(place), { recursive: true });
    copyFileSync(addonPath, place);
  }
  const script = fileURLToPath(new URL('pack.mjs', import.meta.url));
  const printed = execFileSync(process.execPath, [script, '--out', out, '--prebuilds', prebuilds], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return { folder: path.join(out, 'package'), tarball: printed.trim().split('\n').at(-1) ?? '' };
}

/**
 * Puts the package and what it needs into a project, without a package manager.
 *
 * @param {string} folder Of the package.
 * @param {string} project
 * @param {readonly string[]} [names] Under which names.
 */
export function installLocally(folder, project, names = ['stripelock']) {
  const installed = path.join(project, 'node_modules');
  for (const name of names) cpSync(folder, path.join(installed, name), { recursive: true });
  const bindings = require.resolve('bindings/package.json');
  for (const manifest of [bindings, createRequire(bindings).resolve('file-uri-to-path/package.json')]) {
    const from = path.dirname(manifest);
    cpSync(from, path.join(installed, path.basename(from)), { recursive: true, dereference: true });
  }
}
