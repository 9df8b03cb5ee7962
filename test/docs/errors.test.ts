import { readdirSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';
import { tablesIn } from '../../scripts/docs/markdown.mjs';
import { root, textOf } from './pages.js';

// docs/errors.md has a row for each code that the sources give to an error or a warning, and no other.

const [errors, warnings] = tablesIn(textOf('docs/errors.md')).map((table) =>
  table.slice(1).map(([name]) => name!.split('<br>')),
) as [string[][], string[][]];
const codesOf = (rows: string[][]): string[] => rows.map(([code]) => code!).sort();

/** The text of every string in lib/; comments do not count. */
function stringsInSources(): string[] {
  const names = readdirSync(path.join(root, 'lib'), { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => {
      const found: string[] = [];
      const visit = (node: ts.Node): void => {
        if (ts.isStringLiteralLike(node)) found.push(node.text);
        ts.forEachChild(node, visit);
      };
      visit(ts.createSourceFile(name, textOf(`lib/${name}`), ts.ScriptTarget.Latest, true));
      return found;
    });
}

const strings = new Set(stringsInSources());

it('every code of an error is in the table, and every code of the table is in the sources', () => {
  // Those are Node's.
  const codes = [...strings].filter((text) => /^ERR_(?!DLOPEN_)[A-Z\d_]+$/.test(text)).sort();
  expect(codes).toContain('ERR_LOCK_TIMEOUT');
  expect(codesOf(errors)).toEqual(codes);
});

it('every code of a warning is in the table, and every code of the table is in the sources', () => {
  const codes = [...strings].filter((text) => /^STRIPELOCK_[A-Z\d_]+$/.test(text)).sort();
  expect(codes).toContain('STRIPELOCK_NO_ADDON');
  expect(codesOf(warnings)).toEqual(codes);
});

it('every class of the table is exported, or is of the language', async () => {
  const exported: object = await import('stripelock');
  for (const [, name] of errors) {
    expect(name! in exported || name! in globalThis, name).toBe(true);
  }
});

it('every class of an error that is exported is in the table', async () => {
  const exported = Object.keys(await import('stripelock')).filter((name) => /^[A-Z].*Error$/.test(name));
  expect(new Set(errors.map(([, name]) => name))).toEqual(new Set([...exported, 'TypeError', 'RangeError']));
});
