import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';

/**
 * Writes a generated page. With `--check` it compares instead, and a difference fails the process.
 *
 * @param {string} file
 * @param {string} page
 */
export function writeOrCheck(file, page) {
  if (!process.argv.includes('--check')) {
    writeFileSync(file, page);
  } else if (readFileSync(file, 'utf8') !== page) {
    const name = path.relative(packageRoot, file);
    console.error(`${name} is not up to date: \`npm run docs\` writes it. Is the change of the API wanted?`);
    process.exitCode = 1;
  }
}
