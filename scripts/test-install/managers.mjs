// The package managers, each as its own published program, and how each installs a project and runs programs in it.

import { chmodSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { unpackedPackage } from '../prebuild/downloads.mjs';
import { binaryPackage } from '../test-hosts/hosts.mjs';

/**
 * @typedef {object} Manager
 * @property {string} name
 * @property {string} version Exact, so that the same commit is always tried with the same managers.
 * @property {Record<string, string>} [files] What a project has because of the manager.
 * @property {(version: string) => Promise<[string, ...string[]]>} program
 * @property {readonly string[]} install
 * @property {boolean} [pnp] Without a folder `node_modules`: the manager runs the programs.
 */

const node = process.execPath;
const yarnSettings = 'enableTelemetry: false\nenableImmutableInstalls: false\nnpmMinimalAgeGate: 0\n';

const npm = async (/** @type {string} */ version) =>
  /** @type {[string, string]} */ ([
    node,
    path.join(await unpackedPackage('npm', version), 'bin/npm-cli.js'),
  ]);

const yarn = async (/** @type {string} */ version) =>
  /** @type {[string, string]} */ ([
    node,
    path.join(await unpackedPackage('@yarnpkg/cli-dist', version), 'bin/yarn.js'),
  ]);

/** @returns {Promise<[string]>} */
async function pnpm(/** @type {string} */ version) {
  const { platform, arch } = process;
  const folder = await unpackedPackage(`@pnpm/exe.${platform}-${arch}`, version);
  return [executable(path.join(folder, platform === 'win32' ? 'pnpm.exe' : 'pnpm'))];
}

/** @returns {Promise<[string]>} */
async function bun(/** @type {string} */ version) {
  const { name, file } = binaryPackage({ kind: 'bun' });
  return [executable(path.join(await unpackedPackage(name, version), file))];
}

function executable(/** @type {string} */ file) {
  if (process.platform !== 'win32') chmodSync(file, 0o755);
  return file;
}

/** @type {readonly Manager[]} */
export const managers = [
  { name: 'npm 11', version: '11.21.2', program: npm, install: ['install', '--no-audit', '--no-fund'] },
  { name: 'npm 12', version: '12.2.0', program: npm, install: ['install', '--no-audit', '--no-fund'] },
  {
    name: 'pnpm 12',
    version: '12.21.0',
    program: pnpm,
    install: ['install'],
    // pnpm does not run the scripts of other packages; that is not a failure here.
    files: { 'pnpm-workspace.yaml': 'strictDepBuilds: false\nminimumReleaseAge: 0\n' },
  },
  {
    name: 'yarn 4, PnP',
    version: '4.18.1',
    program: yarn,
    install: ['install'],
    files: { '.yarnrc.yml': `nodeLinker: pnp\n${yarnSettings}`, 'yarn.lock': '' },
    pnp: true,
  },
  {
    name: 'yarn 4, node_modules',
    version: '4.18.1',
    program: yarn,
    install: ['install'],
    files: { '.yarnrc.yml': `nodeLinker: node-modules\n${yarnSettings}`, 'yarn.lock': '' },
  },
  { name: 'Bun 1.4', version: '1.4.5', program: bun, install: ['install'] },
];

/**
 * The command that runs `words` in an installed project: `node` with a program, or a program of a package.
 *
 * @param {Manager} manager
 * @param {readonly string[]} program Of the manager.
 * @param {string} project
 * @param {readonly string[]} words
 * @returns {string[]}
 */
export function commandIn(manager, program, project, [first = '', ...rest]) {
  if (manager.pnp) return [...program, ...(first === 'node' ? [] : ['run']), first, ...rest];
  if (first === 'node') return [node, ...rest];
  const folder = path.join(project, 'node_modules', first === 'tsc' ? 'typescript' : first);
  const { bin } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return [node, path.join(folder, typeof bin === 'string' ? bin : bin[first]), ...rest];
}
