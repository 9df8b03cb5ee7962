// Builds one target: with a compiler that takes GCC's options and the flags that node-gyp's own gyp takes from binding.gyp,
// so that a prebuilt binary is compiled as by `npm run build`; or with node-gyp itself, on macOS and Windows.

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
import { inParallel, run } from '../run.mjs';
import { UsageError } from './targets.mjs';

const require = createRequire(import.meta.url);

/**
 * The arguments of a compiler with GCC's options.
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
export const addonFlags = (target, nodedir) =>
  inCopy(async (stage) => {
    const options = ['--release', '--loglevel=error', `--arch=${target.arch}`, `--nodedir=${nodedir}`];
    await nodeGyp(stage, ['configure', ...options, '--', '-f', 'gypd', `-DOS=${target.os}`]);
    return effective(await parse(path.join(stage, 'binding.gypd')), stage);
  });

/**
 * Does something in a copy of what node-gyp needs. It writes next to binding.gyp, and the repository's own build/ stays as it
 * is.
 *
 * @template T
 * @param {(stage: string) => Promise<T>} work
 * @returns {Promise<T>}
 */
async function inCopy(work) {
  const stage = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-gyp-')));
  try {
    for (const part of ['binding.gyp', 'native', 'package.json', 'scripts']) {
      const [from, to] = [path.join(packageRoot, part), path.join(stage, part)];
      // The names of the sources must stay true when the copy is gone. Windows has no links to files for everybody.
      if (process.platform === 'linux') symlinkSync(from, to);
      else cpSync(from, to, { recursive: true });
    }
    symlinkSync(path.join(packageRoot, 'node_modules'), path.join(stage, 'node_modules'), 'junction');
    return await work(stage);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/**
 * @param {string} stage
 * @param {readonly string[]} words
 */
const nodeGyp = (stage, words) =>
  run(process.execPath, [require.resolve('node-gyp/bin/node-gyp.js'), ...words], { cwd: stage });

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

/**
 * A compiler, and its options in addition to the flags of binding.gyp.
 *
 * @typedef {object} Toolchain
 * @property {string} described For the log.
 * @property {string} cxx The command of the compiler.
 * @property {string} strip The command that strips.
 * @property {NodeJS.ProcessEnv} env Of both.
 * @property {readonly string[]} compile Options before those of binding.gyp.
 * @property {readonly string[]} [last] Options after those of binding.gyp.
 * @property {readonly string[]} link Options and libraries after those of binding.gyp.
 * @property {readonly string[]} [sources] Files that are compiled with those of the addon.
 * @property {(words: readonly string[]) => readonly string[]} [spelled] Converts binding.gyp's linker options to those
 *   of this linker.
 */

/**
 * Writes the stripped binary.
 *
 * @param {Toolchain} toolchain
 * @param {AddonFlags} flags
 * @param {string} binary
 */
export async function build(toolchain, flags, binary) {
  const { cxx, strip, env, compile, link, last = [], sources = [], spelled = (words) => words } = toolchain;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-prebuild-'));
  try {
    const objects = new Map(
      [...flags.sources, ...sources].map((source) => [
        source,
        // With its folder, as files in different folders may have one name.
        path.join(folder, `${path.basename(path.dirname(source))}-${path.basename(source)}.o`),
      ]),
    );
    await inParallel(objects, os.availableParallelism(), ([source, object]) =>
      run(cxx, [...compile, ...flags.compile, ...last, '-c', source, '-o', object], { env }),
    );
    const linked = path.join(folder, 'stripelock.node');
    await run(cxx, ['-shared', ...objects.values(), '-o', linked, ...spelled(flags.link), ...link], { env });
    mkdirSync(path.dirname(binary), { recursive: true });
    await run(strip, ['-o', binary, linked], { env });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

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
 * Builds with Xcode's or Microsoft's compiler.
 *
 * @param {string} binary
 */
export const buildWithNodeGyp = (binary) =>
  inCopy(async (stage) => {
    await nodeGyp(stage, ['rebuild', '--release', '--jobs=max', '--loglevel=warn', ...nodedirArguments()]);
    const built = path.join(stage, 'build', 'Release', 'stripelock.node');
    // Microsoft's linker puts symbols in a separate file.
    if (process.platform === 'darwin') await run('strip', ['-x', built]);
    mkdirSync(path.dirname(binary), { recursive: true });
    copyFileSync(built, binary);
  });
