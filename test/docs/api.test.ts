import ts from 'typescript';
import { expect, it } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { textOf } from './pages.js';

// api.md is written from the declarations, whose bundler renames what is not exported.

/** The names in the types of a part of the page, and the names that it declares. */
function namesIn(code: string): { declared: string[]; used: string[] } {
  const file = ts.createSourceFile('api.ts', code, ts.ScriptTarget.Latest, true);
  const declared: string[] = [];
  const used: string[] = [];
  const visit = (node: ts.Node): void => {
    if ('name' in node && node.name && ts.isIdentifier(node.name as ts.Node)) {
      declared.push((node.name as ts.Identifier).text);
    }
    if (ts.isTypeReferenceNode(node)) used.push(node.typeName.getText().split('.')[0]!);
    if (ts.isTypeQueryNode(node)) used.push(node.exprName.getText().split('.')[0]!);
    if (ts.isExpressionWithTypeArguments(node)) used.push(node.expression.getText());
    ts.forEachChild(node, visit);
  };
  visit(file);
  return { declared, used };
}

/** Names of the language and of Node. */
const KNOWN =
  /^(Promise|PromiseLike|Async|Disposable|Error|TypeError|Uint8Array|SharedArrayBuffer|Record|Exclude|Awaited|Omit|Pick|Readonly|ArrayLike|NodeJS|globalThis)/;

it('every type that the page uses is declared on it, under a name that the package has', () => {
  const parts = codeIn(textOf('api.md'), 'ts').map(({ code }) => namesIn(code));
  expect(parts.length).toBeGreaterThan(10);
  const inMain = parts[0]!.declared;
  const unknown = parts.flatMap(({ declared, used }) =>
    used.filter((name) => !declared.includes(name) && !inMain.includes(name) && !KNOWN.test(name)),
  );
  expect([...new Set(unknown)].sort()).toEqual([]);
  expect(textOf('api.md')).not.toMatch(/\w\$\d/);
});

it('the page lists the members of guards', () => {
  const page = textOf('api.md');
  for (const name of ['Guard', 'ProcessGuard']) {
    const [members] = new RegExp(`export class ${name}<[^]*?\n}`).exec(page) ?? [''];
    for (const member of ['held', 'abandoned', 'token', 'release()']) expect(members, name).toContain(member);
  }
});
