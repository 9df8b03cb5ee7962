// Large packages that only the slow tests, the site and one test of docs/testing.md use. They are a third of all packages, so
// they are installed separately: `npm run install:tools`, into test/drivers/tools.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { packageRoot } from './addon-inputs.mjs';

const folder = path.join(packageRoot, 'test', 'drivers', 'tools', 'node_modules');

export const TOOLS_ADVICE = 'Run: npm run install:tools';

/** Whether the packages are installed. npm writes this file last. */
export const hasTools = existsSync(path.join(folder, '.package-lock.json'));

/**
 * A file or folder of such a package.
 *
 * @param {string} name The package's name, and the path in it.
 */
export function toolPath(name) {
  if (!hasTools) throw new Error(`${name} is not installed. ${TOOLS_ADVICE}`);
  return path.join(folder, name);
}

/**
 * Loads a module of such a package.
 *
 * @param {string} file The package's name, and the path in it.
 * @returns {Promise<any>}
 */
export const loadTool = (file) => import(pathToFileURL(toolPath(file)).href);
