// The platforms that have a prebuilt binary, and what this repository knows about each.

import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';

/** A GNU triple is the prefix of the tools, and of Debian's folders. */
const triples = { x64: 'x86_64', arm64: 'aarch64' };

function target(name) {
  const [platform, arch, libc] = name.split('-');
  return {
    name,
    platform,
    arch,
    musl: libc === 'musl',
    cpu: triples[arch],
    /** As gyp calls the system. */
    os: { linux: 'linux', win32: 'win', darwin: 'mac' }[platform],
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

/** What cannot be built on Debian, and why. */
export const notOnDebian = {
  'win32-arm64': 'Debian has no mingw-w64 for arm64',
  'darwin-x64': "the macOS SDK is Apple's alone",
  'darwin-arm64': "the macOS SDK is Apple's alone",
};

export const defaultOutput = path.join(packageRoot, 'prebuilds');

export const binaryOf = (output, name) => path.join(output, name, 'stripelock.node');

/** A mistake of the caller, whose message is all there is to say. */
export class UsageError extends Error {}

export function targetsNamed(names) {
  const known = new Map(targets.map((each) => [each.name, each]));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new UsageError(
      `unknown target${unknown.length > 1 ? 's' : ''}: ${unknown.join(', ')}. ` +
        `The targets are ${[...known.keys()].join(', ')}`,
    );
  }
  return [...new Set(names)].map((name) => known.get(name));
}
