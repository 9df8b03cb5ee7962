import path from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { blocksIn, htmlIn } from '../../scripts/docs/markdown.mjs';
import { markdownFiles, root, textOf } from './pages.js';

// Every block of JavaScript and TypeScript in the pages, compiled as the strict TypeScript of a reader who copies it.
//
// A fragment uses names that its reader has. The page declares them in a comment right before the block, which no reader sees:
//
//     <!-- types
//     declare const leases: import('stripelock').LeaseManager;
//     -->

/** `api.md` lists declarations, and is written from the types. */
const pages = markdownFiles().filter((page) => page !== 'api.md');
const CHECKED = ['js', 'ts'];
/** Languages of blocks that have no types. */
const OTHERS = ['ini', 'lua', 'sh', 'sql', 'text'];

interface Source {
  readonly page: string;
  /** The text in front of the code. */
  readonly before: string;
  readonly code: string;
  /** The page's line of the code's first line. */
  readonly line: number;
}

/** Where the blocks of a page stand: below the package, so that its own name leads to it. */
const folderOf = (page: string): string => path.join(root, 'docs/blocks', page.replaceAll('/', '-'));

/**
 * The blocks of a page as files. One whose first line is `// store.mjs` is that file for the other blocks; if several are,
 * it is the first of them.
 */
function filesOf(page: string, markdown: string): [file: string, source: Source][] {
  const names = new Set<string>();
  return blocksIn(markdown)
    .filter(({ language }) => CHECKED.includes(language))
    .map(({ code, line, types }, i) => {
      const [, named] = /^\/\/ ([\w-]+)\.mjs\b/.exec(code) ?? [];
      const name = named !== undefined && !names.has(named) ? named : `block-${i + 1}`;
      names.add(name);
      // TypeScript has no other types for what `require` returns.
      const extension = /\brequire\(/.test(code) ? 'cjs' : 'mts';
      // A file without imports would share its names with others.
      const before = `${types}${extension === 'mts' ? 'export {};\n' : ''}`;
      return [path.join(folderOf(page), `${name}.${extension}`), { page, before, code, line }];
    });
}

const options: ts.CompilerOptions = {
  strict: true,
  allowJs: true,
  checkJs: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  skipLibCheck: true,
};

/** The errors of the compiler in the blocks of these pages. */
function errorsIn(texts: ReadonlyMap<string, string>): string[] {
  const files = new Map([...texts].flatMap(([page, markdown]) => filesOf(page, markdown)));
  const host = ts.createCompilerHost(options);
  const onDisk = { ...host };
  const textIn = (file: string): string | undefined => {
    const source = files.get(path.normalize(file));
    return source && source.before + source.code;
  };
  host.directoryExists = (folder) =>
    [...files.keys()].some((file) => path.dirname(file) === path.normalize(folder)) ||
    ts.sys.directoryExists(folder);
  host.fileExists = (file) => textIn(file) !== undefined || onDisk.fileExists(file);
  host.readFile = (file) => textIn(file) ?? onDisk.readFile(file);
  host.getSourceFile = (file, version) => {
    const text = textIn(file);
    return text === undefined
      ? onDisk.getSourceFile(file, version)
      : ts.createSourceFile(file, text, version, true);
  };
  const program = ts.createProgram({ rootNames: [...files.keys()], options, host });
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, ' ');
    const source = file && files.get(path.normalize(file.fileName));
    if (source === undefined) return `${file?.fileName}: ${message}`;
    const { page, before, line } = source;
    const at = file!.getLineAndCharacterOfPosition(start!).line - (before.split('\n').length - 1);
    return `${page}:${at < 0 ? `before ${line}` : line + at}: ${message}`;
  });
}

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

  it('compiles as strict TypeScript, and faults that are planted do not', () => {
    const texts = new Map(pages.map((page) => [page, textOf(page)]));
    const errors = errorsIn(new Map([...texts, ['planted.md', planted]]));
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
