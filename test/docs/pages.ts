import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

export const root = path.resolve(import.meta.dirname, '../..');

/** The text of a file of the repository. */
export const textOf = (name: string): string => readFileSync(path.join(root, name), 'utf8');

/** All Markdown files of the repository. */
export function markdownFiles(): string[] {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'];
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim().split('\n').sort();
}
