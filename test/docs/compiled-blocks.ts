import path from 'node:path';
import ts from 'typescript';
import { blocksIn } from '../../scripts/docs/markdown.mjs';
import { root } from './pages.js';

// Compiles the blocks of JavaScript and TypeScript in pages, as the strict TypeScript of a reader who copies them.
//
// A fragment uses names that its reader has. The page declares them in a comment right before the block, which no reader sees:
//
//     <!-- types
//     declare const leases: import('stripelock').LeaseManager;
//     -->

/** Milliseconds: the compiler, beside other tests. */
export const COMPILES_IN = 240_000;

/** The languages of the blocks that are compiled. */
export const CHECKED = ['js', 'ts'];

interface Source {
  readonly page: string;
  /** The text in front of the code. */
  readonly before: string;
  readonly code: string;
  /** The page's line of the code's first line. */
  readonly line: number;
}

/**
 * The blocks of a page as files of a folder. One whose first line is `// store.mjs` or `// store.mts` is that file for the other
 * blocks; if several are, it is the first of them.
 */
function filesOf(page: string, markdown: string, folder: string): [file: string, source: Source][] {
  const names = new Set<string>();
  return blocksIn(markdown)
    .filter(({ language }) => CHECKED.includes(language))
    .map(({ code, line, types }, i) => {
      const [, named] = /^\/\/ ([\w-]+)\.m[jt]s\b/.exec(code) ?? [];
      const name = named !== undefined && !names.has(named) ? named : `block-${i + 1}`;
      names.add(name);
      // TypeScript has no other types for what `require` returns.
      const extension = /\brequire\(/.test(code) ? 'cjs' : 'mts';
      // A file without imports would share its names with others.
      const before = `${types}${extension === 'mts' ? 'export {};\n' : ''}`;
      return [path.join(folder, `${name}.${extension}`), { page, before, code, line }];
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
  typeRoots: [path.join(root, 'node_modules/@types')],
  skipLibCheck: true,
  // Installed apart from the others.
  paths: { '@jest/globals': [path.join(root, 'test/drivers/tools/node_modules/@jest/globals')] },
  // NestJS needs both.
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
};

/**
 * The errors of the compiler in the blocks of these pages.
 *
 * @param texts By page.
 * @param folderOf Where the blocks of a page stand. The packages that they import are found from there.
 */
export function errorsIn(texts: ReadonlyMap<string, string>, folderOf: (page: string) => string): string[] {
  const files = new Map(
    [...texts].flatMap(([page, markdown]) => filesOf(page, markdown, path.normalize(folderOf(page)))),
  );
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
