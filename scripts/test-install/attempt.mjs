// Installs the tarball into an empty project of one use with one manager, runs it, and says what is wrong.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { ended } from '../run.mjs';
import { commandIn } from './managers.mjs';
import { expectedReport } from './uses.mjs';

/** Milliseconds for one install or one run, on a busy machine and with an empty cache. */
const limit = 300_000;

/**
 * @param {readonly string[]} command
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 */
async function run(command, cwd, env) {
  const { end, stdout, stderr } = await ended(command, { cwd, env, timeout: limit });
  return { failed: end !== 0, output: `${stdout}\n${stderr}` };
}

/**
 * @param {object} of
 * @param {import('./managers.mjs').Manager} of.manager
 * @param {readonly string[]} of.program Of the manager.
 * @param {import('./uses.mjs').Use} of.use
 * @param {string} of.tarball
 * @param {string} of.folder For the project.
 * @param {NodeJS.ProcessEnv} of.env
 * @returns {Promise<string | undefined>} What is wrong, or undefined.
 */
export async function attempt({ manager, program, use, tarball, folder, env }) {
  mkdirSync(folder, { recursive: true });
  const manifest = {
    name: 'user',
    version: '1.0.0',
    private: true,
    ...use.manifest,
    dependencies: { stripelock: `file:${tarball}`, ...use.dependencies },
  };
  const files = { 'package.json': JSON.stringify(manifest), ...manager.files, ...use.files };
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);

  const installed = await run([...program, ...manager.install], folder, env);
  if (installed.failed) return `the install failed:\n${installed.output}`;
  const talk = installed.output.split('\n').filter((line) => complaint.test(line));
  if (talk.length > 0) return `the install says: ${talk.join('\n')}`;

  let output = '';
  for (const words of use.commands) {
    const result = await run(commandIn(manager, program, folder, words), folder, env);
    if (result.failed) return `${words.join(' ')} failed:\n${result.output}`;
    ({ output } = result);
  }
  return reportsWrong(output);
}

/**
 * Messages that an install may not print about the package: that it builds it, blocks its scripts, or cannot compile
 * it.
 */
const complaint =
  /stripelock.*(build|script|approve|gyp|compil|warn)|(warn|error).*stripelock|gyp (ERR|info)/i;

/** @param {string} output */
function reportsWrong(output) {
  const [, report] = /REPORT (\{.*\})/.exec(output) ?? [];
  if (report === undefined) return `no report:\n${output}`;
  if (!isDeepStrictEqual(JSON.parse(report), expectedReport)) return `reports ${report}`;
  // The warning is also printed, by a thread that reports nothing.
  return output.includes('STRIPELOCK_') ? `warns:\n${output}` : undefined;
}
