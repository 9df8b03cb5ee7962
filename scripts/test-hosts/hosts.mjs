// The hosts, and the sources of their binaries: packages of npm's registry that contain only a binary. Unlike the
// packages `node`, `bun` and `deno` they need no install script.

import { chmodSync } from 'node:fs';
import path from 'node:path';

import { unpackedPackage } from '../prebuild/downloads.mjs';

/**
 * @typedef {object} Host
 * @property {string} name The column of the table.
 * @property {string} version Exact, so that the same commit is always tried on the same hosts.
 * @property {'node' | 'bun' | 'deno'} kind
 */

/** @type {readonly Host[]} */
export const hosts = [
  { name: 'Node 20', kind: 'node', version: '20.20.2' },
  { name: 'Node 22', kind: 'node', version: '22.23.3' },
  { name: 'Node 24', kind: 'node', version: '24.21.0' },
  { name: 'Node 26', kind: 'node', version: '26.10.0' },
  { name: 'Bun 1.4', kind: 'bun', version: '1.4.5' },
  { name: 'Deno 2.9', kind: 'deno', version: '2.9.6' },
];

const windows = process.platform === 'win32';
const exe = windows ? '.exe' : '';

/** @param {Pick<Host, "kind">} host */
export function binaryPackage({ kind }) {
  const { platform, arch } = process;
  if (kind === 'node') return { name: `node-${windows ? 'win' : platform}-${arch}`, file: `bin/node${exe}` };
  if (kind === 'deno')
    return { name: `@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`, file: `deno${exe}` };
  const system = windows ? 'windows' : platform;
  return { name: `@oven/bun-${system}-${arch === 'arm64' ? 'aarch64' : arch}`, file: `bin/bun${exe}` };
}

/**
 * The command that runs a check on the host; the file follows.
 *
 * @param {Host} host
 * @param {Pick<import('./checks.mjs').Check, 'nodeOptions' | 'denoOptions'>} [options]
 * @returns {Promise<[string, ...string[]]>}
 */
export async function commandOf(host, { nodeOptions = [], denoOptions = ['--allow-all'] } = {}) {
  const { name, file } = binaryPackage(host);
  const binary = path.join(await unpackedPackage(name, host.version), file);
  if (!windows) chmodSync(binary, 0o755);
  if (host.kind === 'deno') return [binary, 'run', ...denoOptions, '--no-prompt', '--no-lock', '--quiet'];
  if (host.kind === 'bun') return [binary];
  return [binary, ...optionsOfNode(host.version, nodeOptions)];
}

/**
 * Node 20 has another name for an option.
 *
 * @param {string} version
 * @param {readonly string[]} options
 */
export const optionsOfNode = (version, options) =>
  version.startsWith('20.')
    ? options.map((option) => option.replace(/^--permission$/, '--experimental-permission'))
    : options;
