import { cp, symlink } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** The folder of the package under test. */
export const ROOT = path.resolve(import.meta.dirname, '../..');
/** The compiled addon, from there. */
export const ADDON = 'build/Release/stripelock.node';

/** Installs the built package in another folder, without its addon. Other parts are copied, or linked. */
export async function installIn(
  folder: string,
  { copied = [], linked = [] }: { copied?: readonly string[]; linked?: readonly string[] } = {},
): Promise<void> {
  for (const part of ['package.json', 'dist', ...copied]) {
    await cp(path.join(ROOT, part), path.join(folder, part), { recursive: true });
  }
  for (const part of ['node_modules', ...linked]) {
    await symlink(path.join(ROOT, part), path.join(folder, part), 'junction');
  }
}

/** The URL of an installation's main module. */
export function entryOf(folder: string): string {
  return pathToFileURL(path.join(folder, 'dist', 'index.js')).href;
}
