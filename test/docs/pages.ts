import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { codeIn } from '../../scripts/docs/markdown.mjs';

export const root = path.resolve(import.meta.dirname, '../..');

export const FRAMEWORKS = 'docs/frameworks.md';
export const POSTGRES = 'docs/stores/postgresql.md';
/** The pages whose programs import packages that only test/drivers/recipes has. */
export const WITH_PACKAGES = [FRAMEWORKS, POSTGRES];

/** The text of a file of the repository. */
export const textOf = (name: string): string => readFileSync(path.join(root, name), 'utf8');

/** All Markdown files of the repository. */
export function markdownFiles(): string[] {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'];
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim().split('\n').sort();
}

/** For the oldest Node, which has no `using`. Blank lines are lost, too. */
export const withoutTypes = (code: string): string =>
  ts.transpile(code, { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext }).trim();

/** The JavaScript in a page, in order, and its TypeScript without the types. */
export const programsIn = (page: string): string[] =>
  codeIn(textOf(page), 'js', 'ts').map(({ language, code }) =>
    language === 'ts' ? withoutTypes(code) : code,
  );
