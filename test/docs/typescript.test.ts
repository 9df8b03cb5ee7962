import path from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { blocksIn, htmlIn } from '../../scripts/docs/markdown.mjs';
import { hasTools } from '../../scripts/large-tools.mjs';
import { CHECKED, COMPILES_IN, errorsIn } from './compiled-blocks.js';
import { markdownFiles, root, textOf, WITH_PACKAGES } from './pages.js';

// Every block of JavaScript and TypeScript in the pages compiles. Two pages import packages of test/drivers/recipes: test/recipes
// compiles them.

/** `api.md` lists declarations, and is written from the types. */
const pages = markdownFiles().filter((page) => page !== 'api.md');
/** Imports the types of jest. Without them, test/docs/testing.test.ts reports that jest is missing. */
const TESTING = 'docs/testing.md';
/** Languages of blocks that have no types. */
const OTHERS = ['dockerfile', 'ini', 'lua', 'sh', 'sql', 'text'];

/** Where the blocks of a page stand: below the package, so that its own name leads to it. */
const folderOf = (page: string): string => path.join(root, 'docs/blocks', page.replaceAll('/', '-'));

/** Statements of a comment that are not declarations alone. */
function statementsIn(types: string): string[] {
  const file = ts.createSourceFile('types.ts', types, ts.ScriptTarget.Latest, true);
  const isDeclaration = (node: ts.Statement): boolean =>
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    (ts.isImportDeclaration(node) && node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword) ||
    (ts.canHaveModifiers(node) &&
      ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DeclareKeyword) === true);
  return file.statements.filter((node) => !isDeclaration(node)).map((node) => node.getText());
}

describe('the code in the pages', () => {
  const planted = [
    '<!-- types',
    'declare const known: number;',
    '-->',
    '```js',
    'known.toFixed();',
    'absent.toFixed();',
    "import { KeyedLock } from 'stripelock';",
    'new KeyedLock({ limits: 3 });',
    '```',
    '',
    '```js',
    'const same = (value) => value;',
    '```',
    '',
    '```js',
    "const { KeyedLock } = require('stripelock');",
    'new KeyedLock().lock();',
    '```',
  ].join('\n');

  it('compiles as strict TypeScript, and faults that are planted do not', { timeout: COMPILES_IN }, () => {
    const checked = pages.filter((page) => !WITH_PACKAGES.includes(page) && (hasTools || page !== TESTING));
    const texts = new Map(checked.map((page) => [page, textOf(page)]));
    const errors = errorsIn(new Map([...texts, ['planted.md', planted]]), folderOf);
    expect(errors.filter((error) => error.startsWith('planted.md:'))).toEqual([
      expect.stringMatching(/^planted\.md:6: Cannot find name 'absent'/),
      expect.stringMatching(/^planted\.md:8: .*'limits' does not exist/),
      expect.stringMatching(/^planted\.md:12: Parameter 'value' implicitly has an 'any' type/),
      expect.stringMatching(/^planted\.md:17: Property 'lock' does not exist/),
    ]);
    expect(errors.filter((error) => !error.startsWith('planted.md:'))).toEqual([]);
  });

  it.each(pages)('of %s names its language', (page) => {
    const unnamed = blocksIn(textOf(page)).filter(
      ({ language }) => ![...CHECKED, ...OTHERS].includes(language),
    );
    expect(unnamed).toEqual([]);
  });

  it.each(pages)('of %s has comments with types that only declare, each before a block', (page) => {
    const markdown = textOf(page);
    const types = blocksIn(markdown)
      .filter(({ language }) => CHECKED.includes(language))
      .map((block) => block.types)
      .filter((text) => text !== '');
    expect(types.flatMap(statementsIn)).toEqual([]);
    expect(htmlIn(markdown).filter((html) => html.startsWith('<!-- types'))).toHaveLength(types.length);
  });
});
