// How scripts start programs, one or several at a time.

import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

const maxBuffer = 64 * 1024 * 1024;

/**
 * What a program prints. If it fails, throws an error with everything that it printed.
 *
 * @param {string} command
 * @param {readonly string[]} commandArguments
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeout?: number, killSignal?: NodeJS.Signals }} [options] The timeout is in milliseconds.
 */
export async function run(command, commandArguments, options = {}) {
  try {
    const { stdout } = await promisify(execFile)(command, commandArguments, {
      ...options,
      encoding: 'utf8',
      maxBuffer,
    });
    return stdout;
  } catch (error) {
    const { stdout, stderr, code, signal } = /** @type {import('node:child_process').ExecFileException} */ (
      error
    );
    const printed = [stdout, stderr].filter(Boolean).join('\n').trim();
    const why = code === 'ENOENT' ? 'is not installed' : `failed (${signal ?? code})`;
    throw new Error(`${command} ${why}\n${commandArguments.join(' ')}\n${printed}`.trim(), { cause: error });
  }
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
