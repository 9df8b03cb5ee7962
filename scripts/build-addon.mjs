// Builds build/Release/stripelock.node with node-gyp. Does nothing when it was built from the same inputs.
//
//   node scripts/build-addon.mjs [--force] [node-gyp options]

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { addonInputs, isMain, packageRoot, warningsAreErrors } from './addon-inputs.mjs';

const require = createRequire(import.meta.url);
export const addonPath = path.join(packageRoot, 'build', 'Release', 'stripelock.node');
const stampPath = path.join(packageRoot, 'build', 'stripelock.stamp');

/**
 * A digest of contents, not times, so it also notices a deleted source and a checkout of an older one. Of Node only the
 * platform and the processor matter, because the binary is the same for every version.
 */
function inputDigest() {
  const hash = createHash('sha256');
  hash.update(`${process.platform} ${process.arch} werror=${String(warningsAreErrors())}\n`);
  for (const file of addonInputs()) {
    // Relative, so that a copy of a checkout has been built already.
    hash.update(`${path.relative(packageRoot, file)}\n`);
    hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

function isUpToDate() {
  return existsSync(addonPath) && existsSync(stampPath) && readFileSync(stampPath, 'utf8') === inputDigest();
}

/**
 * Headers installed beside the running node need no download. An explicit nodedir wins.
 *
 * @param {readonly string[]} [extraArguments] Of node-gyp.
 */
export function nodedirArguments(extraArguments = []) {
  const explicit =
    extraArguments.some((argument) => argument.startsWith('--nodedir')) ||
    process.env.npm_config_nodedir ||
    process.env.npm_package_config_node_gyp_nodedir;
  const prefix = path.resolve(process.execPath, '..', '..');
  if (explicit || !existsSync(path.join(prefix, 'include', 'node', 'node_api.h'))) return [];
  return [`--nodedir=${prefix}`];
}

/**
 * @param {{ force?: boolean, extraArguments?: readonly string[], stdio?: 'inherit' | 'pipe' }} [options]
 * @returns {{ ok: boolean, output: string }} The output is empty if stdio is 'inherit'.
 */
export function buildAddon({ force = false, extraArguments = [], stdio = 'inherit' } = {}) {
  if (!force && isUpToDate()) return { ok: true, output: '' };
  const digest = inputDigest();
  rmSync(stampPath, { force: true });
  const commands = force ? ['rebuild'] : ['configure', 'build'];
  for (const command of commands) {
    const result = spawnSync(
      process.execPath,
      [
        require.resolve('node-gyp/bin/node-gyp.js'),
        command,
        '--release',
        '--jobs=max',
        '--loglevel=warn',
        ...nodedirArguments(extraArguments),
        ...extraArguments,
      ],
      { cwd: packageRoot, stdio, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    if (result.status !== 0) {
      const output = [result.stdout, result.stderr, result.error?.message].filter(Boolean).join('\n');
      return { ok: false, output };
    }
  }
  writeFileSync(stampPath, digest);
  return { ok: true, output: '' };
}

if (isMain(import.meta.url)) {
  const options = process.argv.slice(2);
  const force = options.includes('--force');
  const { ok, output } = buildAddon({
    force,
    extraArguments: options.filter((option) => option !== '--force'),
  });
  if (!ok) {
    console.error(`${output}\nstripelock: the native addon could not be built`.trim());
    process.exitCode = 1;
  }
}
