import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

/** The folder of the package under test. */
export const PACKAGE_ROOT = path.resolve(import.meta.dirname, '../..');
/** The compiled addon, in a folder of the package. */
export const ADDON = 'build/Release/stripelock.node';

/** New text for some modules of `unbundled/`, by path from there. */
export type Changes = Readonly<Record<string, (text: string) => string>>;

export interface CopyOptions {
  /**
   * `link`: the same file as ours, and so the same registry of threads. `copy`: a separate file. Otherwise none.
   */
  readonly addon?: 'link' | 'copy';
  readonly changes?: Changes;
}

/**
 * Installs the built package once more, in a new folder. With changes, its entry point for `import` leads to the modules
 * of `unbundled/`. Throws if a change does not alter its module: then it would test nothing.
 */
export async function copyPackage(to: string, { addon, changes = {} }: CopyOptions = {}): Promise<string> {
  const parts = ['package.json', 'addon.cjs', 'dist', 'unbundled', ...(addon === 'copy' ? [ADDON] : [])];
  for (const part of parts) {
    await cp(path.join(PACKAGE_ROOT, part), path.join(to, part), { recursive: true });
  }
  for (const part of ['node_modules', ...(addon === 'link' ? ['build'] : [])]) {
    await symlink(path.join(PACKAGE_ROOT, part), path.join(to, part), 'junction');
  }
  for (const [file, change] of Object.entries(changes)) {
    const module = path.join(to, 'unbundled', file);
    const text = await readFile(module, 'utf8');
    const changed = change(text);
    if (changed === text) throw new Error(`the change of ${file} changes nothing`);
    await writeFile(module, changed);
  }
  if (Object.keys(changes).length > 0) {
    await writeFile(path.join(to, 'dist', 'index.mjs'), "export * from '../unbundled/index.js';\n");
  }
  return to;
}

/** A new folder for temporary files. */
export function makeFolder(): Promise<string> {
  return mkdtemp(path.join(tmpdir(), 'stripelock-test-'));
}

/** Windows does not delete an addon that is loaded. There it stays among the temporary files. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}

/** A copy that is deleted when the test ends. */
export async function copyForTest(options?: CopyOptions): Promise<string> {
  const folder = await makeFolder();
  onTestFinished(() => removeFolder(folder));
  return copyPackage(folder, options);
}
