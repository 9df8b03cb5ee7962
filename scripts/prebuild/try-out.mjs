// Tries a binary: in a staged package, by a host of its platform.

import {
  cpSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  existsSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { UsageError } from './targets.mjs';

const require = createRequire(import.meta.url);

/** For the whole program, including the start of an emulated host. */
const limit = 300_000;

/** What `program.mjs` prints if a binary passes. */
const parts = ['loads', 'counts', 'terminates', 'recovers', 'all'];

/**
 * A package with only this binary, in the place of a compiled one.
 *
 * @param {string} binary
 */
function stagePackage(binary) {
  const dist = path.join(packageRoot, 'dist');
  if (!existsSync(path.join(dist, 'index.mjs')))
    throw new UsageError('no dist/: run `npm run build:ts` first');
  const stage = mkdtempSync(path.join(os.tmpdir(), 'stripelock-try-'));
  cpSync(dist, path.join(stage, 'dist'), { recursive: true });
  for (const name of ['package.json', 'addon.cjs']) {
    copyFileSync(path.join(packageRoot, name), path.join(stage, name));
  }
  copyFileSync(new URL('program.mjs', import.meta.url), path.join(stage, 'program.mjs'));
  const bindings = require.resolve('bindings/package.json');
  for (const manifest of [bindings, createRequire(bindings).resolve('file-uri-to-path/package.json')]) {
    const folder = path.dirname(manifest);
    cpSync(folder, path.join(stage, 'node_modules', path.basename(folder)), {
      recursive: true,
      dereference: true,
    });
  }
  const place = path.join(stage, 'build', 'Release', 'stripelock.node');
  mkdirSync(path.dirname(place), { recursive: true });
  copyFileSync(binary, place);
  return stage;
}

/**
 * Resolves to undefined if the binary passes, otherwise to what it printed.
 *
 * @param {string} binary
 * @param {Pick<import('./hosts.mjs').Host, 'command' | 'env'>} host
 */
export async function tryOut(binary, { command: [program, ...words], env }) {
  const stage = stagePackage(binary);
  // A file and not a pipe: under wine a pipe is no console, and the last output gets lost.
  const output = path.join(stage, 'output');
  const file = openSync(output, 'w');
  try {
    const end = await ended(
      spawn(program, [...words, 'program.mjs'], {
        cwd: stage,
        env,
        stdio: ['ignore', file, file],
        timeout: limit,
      }),
    );
    const printed = readFileSync(output, 'utf8').replaceAll('\r', '').trim();
    if (end === 0 && printed.split('\n').join() === parts.join()) return undefined;
    return `ended with ${end}, printed:\n${printed}`;
  } finally {
    closeSync(file);
    rmSync(stage, { recursive: true, force: true });
  }
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<number | string | null>} The exit code, else the signal, or why it did not start.
 */
const ended = (child) =>
  new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code ?? signal));
  });
