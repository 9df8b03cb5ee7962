// What `--system` uses of this machine: Node's headers, and node-gyp where the compiler does not take GCC's options.

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { nodedirArguments } from '../build-addon.mjs';
import { run } from './run.mjs';
import { UsageError } from './targets.mjs';

const require = createRequire(import.meta.url);

/** The folder with Node's headers in include/node: beside this node, from npm's settings, or from the last build. */
export function systemHeaders() {
  const config = path.join(packageRoot, 'build', 'config.gypi');
  const built = existsSync(config)
    ? /"nodedir": "([^"]+)"/.exec(readFileSync(config, 'utf8'))?.[1]
    : undefined;
  const found = [path.resolve(process.execPath, '../..'), process.env.npm_config_nodedir, built]
    .flatMap((folder) => folder ?? [])
    .find((folder) => existsSync(path.join(folder, 'include/node/common.gypi')));
  if (found === undefined)
    throw new UsageError("Node's headers are not on this machine: run `npm run build` first");
  return found;
}

/**
 * Builds with Xcode's or Microsoft's compiler, in a copy: the repository's own build/ stays as it is.
 *
 * @param {string} binary
 */
export async function buildWithNodeGyp(binary) {
  const stage = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-prebuild-')));
  try {
    for (const part of ['binding.gyp', 'native', 'package.json', 'scripts']) {
      cpSync(path.join(packageRoot, part), path.join(stage, part), { recursive: true });
    }
    symlinkSync(path.join(packageRoot, 'node_modules'), path.join(stage, 'node_modules'), 'junction');
    const nodeGyp = require.resolve('node-gyp/bin/node-gyp.js');
    const options = ['rebuild', '--release', '--jobs=max', '--loglevel=warn', ...nodedirArguments()];
    await run(process.execPath, [nodeGyp, ...options], { cwd: stage });
    const built = path.join(stage, 'build', 'Release', 'stripelock.node');
    // Microsoft's linker puts symbols in a file of their own.
    if (process.platform === 'darwin') await run('strip', ['-x', built]);
    mkdirSync(path.dirname(binary), { recursive: true });
    copyFileSync(built, binary);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}
