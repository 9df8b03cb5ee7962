// Assembles the published package in release/package, and packs it. The last line that it prints is the tarball's path.
//
//   npm run package                     with what is in dist/ and prebuilds/, so build first
//   npm run package -- --all-targets    fails unless there is a binary for every platform
//   npm run package -- --out <folder>   somewhere else than in release/
//   npm run package -- --prebuilds <folder>   with the binaries of another folder
//
// The manifest differs from the sources' manifest: it has no scripts, so nothing runs at install, and no binding.gyp
// beside it, which npm would compile. The addon can still be compiled in the installed package: scripts/compile.mjs.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { buildTools, packageRoot } from './addon-inputs.mjs';
import { absoluteLinks } from './pack/readme.mjs';
import { billOfMaterials } from './pack/sbom.mjs';
import { binaryOf, defaultOutput, machineTarget, targets } from './prebuild/targets.mjs';

/** From the folder of the sources, to the same place. */
const copied = [
  'addon.cjs',
  'dist',
  'LICENSE',
  'native/core',
  'native/core.cc',
  'native/node',
  'native/node.cc',
  'scripts/addon-inputs.mjs',
  'scripts/build-addon.mjs',
  'scripts/compile.mjs',
];

/** Parts of the sources' manifest that are useless in an installed package. */
const leftOut = ['private', 'files', 'scripts', 'devDependencies', 'overrides'];

/** In bytes: what an install may take, with the binaries of all platforms, less 80 KiB for its dependencies. */
const LARGEST = 5.25 * 1024 * 1024 - 80 * 1024;
const BLOCK = 4096;

/** @typedef {Record<string, any>} Manifest */

/** @param {Manifest} manifest Of the sources. */
function publishedManifest(manifest) {
  const published = Object.fromEntries(Object.entries(manifest).filter(([key]) => !leftOut.includes(key)));
  const tools = buildTools.map((name) => [name, manifest.devDependencies[name]]);
  // Never installed with the package: scripts/compile.mjs reads there what it has to fetch.
  return { ...published, devDependencies: Object.fromEntries(tools) };
}

/**
 * Resolvers that do not know `exports` look for a folder.
 *
 * @param {string} folder
 * @param {Manifest} manifest
 */
function addFoldersOfEntries(folder, manifest) {
  for (const [subpath, conditions] of Object.entries(manifest.exports)) {
    if (subpath === '.' || conditions.require === undefined) continue;
    const at = path.join(folder, subpath);
    const { types, default: main } = conditions.require;
    mkdirSync(at, { recursive: true });
    writeJson(path.join(at, 'package.json'), {
      main: path.posix.relative(subpath, main),
      types: path.posix.relative(subpath, types),
    });
  }
}

/**
 * @param {string} file
 * @param {unknown} value
 */
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

/**
 * @param {string} folder
 * @param {string} prebuilds The folder of the binaries.
 */
function assemble(folder, prebuilds) {
  /** @type {Manifest} */
  const manifest = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
  if (!existsSync(path.join(packageRoot, 'dist')))
    throw new Error('there is no dist/: run `npm run build:ts` first');
  rmSync(folder, { recursive: true, force: true });
  for (const name of copied)
    cpSync(path.join(packageRoot, name), path.join(folder, name), { recursive: true });
  cpSync(path.join(packageRoot, 'binding.gyp'), path.join(folder, 'native', 'binding.gyp'));
  const readme = readFileSync(path.join(packageRoot, 'README.md'), 'utf8');
  const { repository, version } = manifest;
  writeFileSync(path.join(folder, 'README.md'), absoluteLinks(readme, { repository, ref: `v${version}` }));
  addFoldersOfEntries(folder, manifest);
  writeJson(path.join(folder, 'package.json'), publishedManifest(manifest));
  writeFileSync(path.join(folder, 'sbom.cdx.json'), billOfMaterials({ name: manifest.name, version }));
  const binaries = targets.map(({ name }) => {
    const binary = binaryOf(prebuilds, name);
    const present = existsSync(binary);
    if (present) cpSync(binary, binaryOf(path.join(folder, 'prebuilds'), name));
    return { name, present };
  });
  const built = binaries.filter(({ present }) => present).map(({ name }) => name);
  if (built.length > 0) writeChecksums(path.join(folder, 'prebuilds'), built);
  return binaries;
}

/**
 * Writes them in the format of `sha256sum --check`.
 *
 * @param {string} folder
 * @param {readonly string[]} names Of targets.
 */
function writeChecksums(folder, names) {
  const lines = names.map((name) => {
    const file = binaryOf(folder, name);
    const sum = createHash('sha256').update(readFileSync(file)).digest('hex');
    return `${sum}  ${path.relative(folder, file).replaceAll(path.sep, '/')}\n`;
  });
  writeFileSync(path.join(folder, 'SHA256SUMS'), lines.join(''));
}

/**
 * The size of a folder on disk, in blocks of the usual size.
 *
 * @param {string} folder
 */
function sizeOnDisk(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    path.join(folder, name),
  );
  return files.reduce((sum, file) => sum + Math.ceil(statSync(file).size / BLOCK) * BLOCK, 0);
}

/**
 * @param {string} folder
 * @param {string} to
 */
function pack(folder, to) {
  const output = execFileSync('npm', ['pack', '--json', '--pack-destination', to], {
    cwd: folder,
    encoding: 'utf8',
    shell: process.platform === 'win32',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return JSON.parse(output)[0];
}

function main() {
  const { values } = parseArgs({
    options: {
      prebuilds: { type: 'string', default: defaultOutput },
      out: { type: 'string', default: path.join(packageRoot, 'release') },
      'all-targets': { type: 'boolean', default: false },
    },
  });
  const out = path.resolve(values.out);
  const binaries = assemble(path.join(out, 'package'), path.resolve(values.prebuilds));
  for (const { name, present } of binaries) console.log(`${name.padEnd(18)} ${present ? 'in' : 'not built'}`);
  if (!binaries.some(({ present }) => present))
    console.error(
      `pack: NO BINARY is in it. \`npm run build:prebuilds -- ${machineTarget()} --system\` builds that of this machine`,
    );
  if (values['all-targets'] && binaries.some(({ present }) => !present))
    throw new Error('a binary is missing');
  const size = sizeOnDisk(path.join(out, 'package'));
  if (size > LARGEST) throw new Error(`the package takes ${size} bytes on disk, more than ${LARGEST}`);
  const { filename, entryCount } = pack(path.join(out, 'package'), out);
  console.log(`${entryCount} files, ${Math.ceil(size / 1024)} KiB on disk`);
  console.log(path.join(out, filename));
}

try {
  main();
} catch (error) {
  console.error(`pack: ${/** @type {Error} */ (error).message}`);
  process.exitCode = 1;
}
