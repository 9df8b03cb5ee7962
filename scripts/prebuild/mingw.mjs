// MinGW-w64, for Windows on x64.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { cached } from './cache.mjs';
import { debianRoot } from './debian.mjs';
import { npmPackage } from './npm.mjs';
import { run } from './run.mjs';
import { environmentFor } from './tool-environment.mjs';

const suite = 'bookworm';
const triple = 'x86_64-w64-mingw32';

/**
 * Translates the libraries that binding.gyp names for Microsoft's linker to GCC's names. An import library replaces
 * Node's.
 *
 * @param {readonly string[]} link
 */
const librariesForGcc = (link) =>
  link
    .filter((word) => !/node\.lib/i.test(word))
    .map((word) => (/^-l.*\.lib$/i.test(word) ? word.replace(/\.lib$/i, '').toLowerCase() : word));

/**
 * An import library for Node's exports. They are loaded at first use, so that the hook can choose where from.
 *
 * @param {(name: string) => string} tool The path of one of the compiler's tools.
 * @param {NodeJS.ProcessEnv} env
 */
async function importLibrary(tool, env) {
  const headers = await npmPackage('node-api-headers');
  const folder = await cached(`${path.basename(headers)}-import`, async (unfinished) => {
    const exports = path.join(unfinished, 'node.def');
    // Each file begins with the host's name, which may appear only once.
    const definitions = ['js_native_api.def', 'node_api.def'].map((name) =>
      readFileSync(path.join(headers, 'def', name), 'utf8'),
    );
    const symbols = definitions.flatMap((text) =>
      text.split(/\s+/).filter((word) => /^(napi|node_api)_/.test(word)),
    );
    writeFileSync(exports, `NAME node.exe\nEXPORTS\n${[...new Set(symbols)].sort().join('\n')}\n`);
    await run(tool('dlltool'), ['-d', exports, '-y', path.join(unfinished, 'libnode.a')], { env });
  });
  return path.join(folder, 'libnode.a');
}

/** @returns {Promise<import('./build.mjs').Toolchain>} */
export async function mingw() {
  const root = await debianRoot('mingw', {
    suite,
    packages: ['g++-mingw-w64-x86-64-posix'],
    dependencies: true,
  });
  const tool = (/** @type {string} */ name) => path.join(root, 'usr/bin', `${triple}-${name}`);
  const env = await environmentFor(root);
  const library = await importLibrary(tool, env);
  return {
    cxx: tool('g++-posix'),
    strip: tool('strip'),
    env,
    sources: [fileURLToPath(new URL('delay-load-hook.cc', import.meta.url))],
    compile: [],
    // Windows machines do not have GCC's own libraries.
    link: [library, '-static'],
    spelled: librariesForGcc,
    described: 'MinGW-w64 of Debian 12',
  };
}
