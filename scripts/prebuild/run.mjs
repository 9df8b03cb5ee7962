// How the other scripts of this folder start programs.

import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

const options = { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 };

/** What a program prints. Throws with all that it printed where it fails. */
export async function run(command, commandArguments, extra = {}) {
  try {
    const { stdout } = await promisify(execFile)(command, commandArguments, { ...options, ...extra });
    return stdout;
  } catch (error) {
    const printed = [error.stdout, error.stderr].filter(Boolean).join('\n').trim();
    const why = error.code === 'ENOENT' ? 'is not installed' : `failed (${error.signal ?? error.code})`;
    throw new Error(`${command} ${why}\n${commandArguments.join(' ')}\n${printed}`.trim(), { cause: error });
  }
}

export const isInstalled = (command) =>
  spawnSync(command, ['--version'], { stdio: 'ignore' }).error === undefined;

/** Calls `work` for each item, a few at a time. Throws the first error once all that had begun has ended. */
export async function inParallel(items, atOnce, work) {
  const waiting = [...items];
  let failure;
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined && failure === undefined; item = waiting.shift()) {
      await work(item).catch((error) => (failure ??= error));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failure !== undefined) throw failure;
}
