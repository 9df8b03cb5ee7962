// The platforms that have a prebuilt binary, and what this repository knows about each.

import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';

/** A GNU triple begins with the processor. It is the prefix of the tools, and of Debian's folders. */
/** @type {Record<string, string>} */
const cpus = { x64: 'x86_64', arm64: 'aarch64' };

/** @type {Record<string, string>} */
const gypSystems = { linux: 'linux', win32: 'win', darwin: 'mac' };

/**
 * @typedef {object} Target
 * @property {string} name As the folder of its binary is called.
 * @property {string} platform As `process.platform` says it.
 * @property {string} arch As `process.arch` says it.
 * @property {boolean} musl
 * @property {string} cpu The processor, as GNU calls it.
 * @property {string} os The system, as gyp calls it.
 */

/**
 * @param {string} name
 * @returns {Target}
 */
function target(name) {
  const [platform, arch, libc] = name.split('-');
  return {
    name,
    platform,
    arch,
    musl: libc === 'musl',
    cpu: cpus[arch],
    os: gypSystems[platform],
  };
}

export const targets = [
  'linux-x64',
  'linux-arm64',
  'linux-x64-musl',
  'linux-arm64-musl',
  'win32-x64',
  'win32-arm64',
  'darwin-x64',
  'darwin-arm64',
].map(target);

/** The target that the running node loads. */
export function machineTarget() {
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  const musl = process.platform === 'linux' && report.header.glibcVersionRuntime === undefined;
  return `${process.platform}-${process.arch}${musl ? '-musl' : ''}`;
}

export const listOfTargets = `The targets are ${targets.map(({ name }) => name).join(', ')}`;

/**
 * The targets that cannot be built on Debian, with the reasons.
 *
 * @type {Partial<Record<string, string>>}
 */
export const notOnDebian = {
  'win32-arm64': 'Debian has no mingw-w64 for arm64',
  'darwin-x64': "the macOS SDK is Apple's alone",
  'darwin-arm64': "the macOS SDK is Apple's alone",
};

export const defaultOutput = path.join(packageRoot, 'prebuilds');

/**
 * @param {string} output The folder of all binaries.
 * @param {string} name Of a target.
 */
export const binaryOf = (output, name) => path.join(output, name, 'stripelock.node');

/** A mistake of the caller. Only its message is printed. */
export class UsageError extends Error {}

/**
 * @param {readonly string[]} names
 * @returns {Target[]} Each once.
 */
export function targetsNamed(names) {
  const known = new Map(targets.map((each) => [each.name, each]));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new UsageError(
      `unknown target${unknown.length > 1 ? 's' : ''}: ${unknown.join(', ')}. ` + listOfTargets,
    );
  }
  return [...new Set(names)].flatMap((name) => known.get(name) ?? []);
}
