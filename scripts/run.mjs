// How scripts start programs, one or several at a time.

import { execFile, spawnSync } from 'node:child_process';

const maxBuffer = 64 * 1024 * 1024;

/**
 * @typedef {object} Ended
 * @property {number | string} end The exit code, the signal that ended the program, or the reason why it did not start.
 * @property {string} stdout
 * @property {string} stderr
 */

/**
 * Runs a program to its end, however it ends.
 *
 * @param {readonly string[]} command
 * @param {import('node:child_process').ExecFileOptions} [options]
 * @returns {Promise<Ended>}
 */
export const ended = ([program = '', ...words], options = {}) =>
  new Promise((resolve) => {
    execFile(program, words, { maxBuffer, ...options, encoding: 'utf8' }, (error, stdout, stderr) =>
      resolve({ end: error === null ? 0 : (error.signal ?? error.code ?? error.message), stdout, stderr }),
    );
  });

/**
 * Runs a program and returns its output. If it fails, throws an error with everything that it printed.
 *
 * @param {string} command
 * @param {readonly string[]} words
 * @param {import('node:child_process').ExecFileOptions} [options]
 */
export async function run(command, words, options = {}) {
  const { end, stdout, stderr } = await ended([command, ...words], options);
  if (end === 0) return stdout;
  const printed = [stdout, stderr].filter(Boolean).join('\n').trim();
  const why = end === 'ENOENT' ? 'is not installed' : `failed (${end})`;
  throw new Error(`${command} ${why}\n${words.join(' ')}\n${printed}`.trim());
}

export const isInstalled = (/** @type {string} */ command) =>
  spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined;

/**
 * Calls `work` for each item, a few at a time. Throws the first error after all started calls have ended.
 *
 * @template T
 * @param {Iterable<T>} items
 * @param {number} atOnce
 * @param {(item: T) => Promise<unknown>} work
 */
export async function inParallel(items, atOnce, work) {
  const waiting = [...items];
  /** @type {unknown} */
  let failure;
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined && failure === undefined; item = waiting.shift()) {
      await work(item).catch((error) => (failure ??= error));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failure !== undefined) throw failure;
}
