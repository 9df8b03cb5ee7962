// Debian's packages, unpacked into the cache and installed nowhere. An apt with a state of its own fetches them and
// checks the signatures, from the mirror that this machine's apt uses; the machine's own sources stay as they are.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

import { cached } from './cache.mjs';
import { isInstalled, run } from './run.mjs';

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** What must be installed before this works, or undefined if nothing is missing. */
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
