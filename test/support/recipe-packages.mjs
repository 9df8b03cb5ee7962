import { createRequire } from 'node:module';

const load = createRequire(new URL('../drivers/recipes/package.json', import.meta.url));

export const RECIPES_ADVICE = 'Run: npm run install:recipes';

/** Whether the package is installed in `test/drivers/recipes`. @param {string} name */
export function isInstalled(name) {
  try {
    load.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** Loads such a package. @param {string} name @returns {any} */
export const loadPackage = (name) => load(name);
