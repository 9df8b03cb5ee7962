// The flags of binding.gyp in effect for a target. node-gyp's own gyp evaluates the file, together with the additions
// of Node's headers and node-gyp. So a prebuilt binary is compiled with the flags of `npm run build`.

import { existsSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { run } from './run.mjs';

const require = createRequire(import.meta.url);

/**
 * What a compiler with GCC's options needs.
 *
 * @typedef {object} AddonFlags
 * @property {string[]} sources
 * @property {string[]} compile Options, with the include directories.
 * @property {string[]} link Options and libraries.
 */

/**
 * @param {import('./targets.mjs').Target} target
 * @param {string} nodedir Holds Node's headers in include/node.
 */
export async function addonFlags(target, nodedir) {
  // node-gyp writes next to binding.gyp. A copy leaves the repository's own build/ unchanged.
  const stage = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-flags-')));
  try {
    for (const part of ['binding.gyp', 'native', 'node_modules', 'package.json', 'scripts']) {
      symlinkSync(path.join(packageRoot, part), path.join(stage, part));
    }
    const nodeGyp = require.resolve('node-gyp/bin/node-gyp.js');
    const gyp = ['-f', 'gypd', `-DOS=${target.os}`];
    const configure = [
      'configure',
      '--release',
      '--loglevel=error',
      `--arch=${target.arch}`,
      `--nodedir=${nodedir}`,
    ];
    await run(process.execPath, [nodeGyp, ...configure, '--', ...gyp], { cwd: stage });
    return effective(await parse(path.join(stage, 'binding.gypd')), stage);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/**
 * The part of gyp's output for a target that is used here.
 *
 * @typedef {object} GypTarget
 * @property {string[]} sources
 * @property {string[]} [libraries]
 * @property {{ Release: GypConfiguration }} configurations
 */

/**
 * @typedef {object} GypConfiguration
 * @property {string[]} include_dirs
 * @property {string[]} [cflags]
 * @property {string[]} [cflags_cc]
 * @property {string[]} [defines]
 * @property {string[]} [ldflags]
 */

/**
 * gyp writes a Python literal.
 *
 * @param {string} file
 * @returns {Promise<GypTarget>}
 */
async function parse(file) {
  const program =
    'import ast, json, sys; print(json.dumps(ast.literal_eval(open(sys.argv[1]).read())["targets"][0]))';
  return JSON.parse(await run('python3', ['-c', program, file]));
}

/**
 * @param {GypTarget} target
 * @param {string} stage The folder of its binding.gyp.
 * @returns {AddonFlags}
 */
function effective({ sources, libraries = [], configurations }, stage) {
  const { cflags = [], cflags_cc = [], defines = [], ldflags = [], ...release } = configurations.Release;
  const resolve = (/** @type {string} */ file) => path.resolve(stage, file);
  const includes = release.include_dirs.map(resolve).filter((folder) => existsSync(folder));
  return {
    sources: sources.map((file) => realpathSync(resolve(file))),
    compile: [
      ...cflags,
      ...cflags_cc,
      ...defines.map((define) => `-D${define.replace('<(EXECUTABLE_SUFFIX)', '.exe')}`),
      ...includes.map((folder) => `-I${realpathSync(folder)}`),
    ],
    link: [...ldflags, ...libraries],
  };
}
