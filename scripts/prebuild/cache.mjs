// Where downloads, toolchains and test hosts are kept: outside the repository, once for all clones.

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const cacheFolder =
  process.env.STRIPELOCK_PREBUILD_CACHE ??
  path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'stripelock-prebuild');

/**
 * The folder of this name, which `fill` fills the first time. It gets its name when it is complete, so an interrupted
 * run leaves nothing that looks finished.
 *
 * @param {string} name
 * @param {(unfinished: string) => unknown} fill Fills the folder of this path; may return a promise.
 */
export async function cached(name, fill) {
  const folder = path.join(cacheFolder, name);
  if (existsSync(folder)) return folder;
  mkdirSync(path.dirname(folder), { recursive: true });
  const unfinished = mkdtempSync(path.join(cacheFolder, 'unfinished-'));
  try {
    await fill(unfinished);
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    // Another run may have filled it meanwhile.
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
  return folder;
}
