// @ts-check
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * A path in a new directory of its own, which is removed when the process ends: normally, by an
 * error, or by Ctrl+C.
 *
 * @param {string} name
 */
export function temporaryFile(name) {
  const directory = mkdtempSync(join(tmpdir(), 'stripelock-ledger-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  // Without these a signal would end the process with no 'exit' event. 128 + n, as shells report it.
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  return join(directory, name);
}
