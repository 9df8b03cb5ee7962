import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Files that people write, by their extension, or by their name if they have none. */
const WRITTEN = /(?:\.(?:c|m)?[jt]s|\.cc|\.h|\.pml|\.gyp|\.json|\.md|^\.ci\/run|Makefile)$/;
/** Files that tools write. */
const GENERATED = /(?:^|\/)package-lock\.json$|^bench\/results\//;

/**
 * The text of each file of the checkout, by its relative path. Includes new files.
 *
 * @param {string} root
 * @returns {Map<string, string>}
 */
export function readSources(root) {
  const names = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  const wanted = names
    .split('\0')
    .filter((name) => WRITTEN.test(name) && !GENERATED.test(name) && existsSync(path.join(root, name)));
  return new Map(wanted.sort().map((name) => [name, readFileSync(path.join(root, name), 'utf8')]));
}
