import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, string | { import: { types: string } }>;
};
/** The types of every entry point. */
const entries = Object.values(manifest.exports).flatMap((entry) =>
  typeof entry === 'string' ? [] : [path.join(root, entry.import.types)],
);

/** The exports of a module without a doc comment, including members of classes and interfaces. */
function undocumented(program: ts.Program, entry: string): string[] {
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;
  const isDocumented = (symbol: ts.Symbol): boolean => symbol.getDocumentationComment(checker).length > 0;
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  const isMember = (symbol: ts.Symbol): boolean => {
    const [declaration] = symbol.declarations ?? [];
    if (declaration === undefined || (symbol.flags & ts.SymbolFlags.TypeParameter) !== 0) return false;
    const isNamed = !symbol.name.startsWith('__') && !symbol.name.startsWith('#');
    return isNamed && (ts.getCombinedModifierFlags(declaration) & hidden) === 0;
  };
  return checker.getExportsOfModule(module).flatMap((exported) => {
    const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
    const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
    const members = [...(symbol.members?.values() ?? [])].filter(isMember);
    const names = members
      .filter((member) => !isDocumented(member))
      .map(({ name }) => `${symbol.name}.${name}`);
    return isDocumented(symbol) ? names : [symbol.name, ...names];
  });
}

it('every public name has a doc comment', { timeout: 60_000 }, () => {
  const program = ts.createProgram(entries, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    skipLibCheck: true,
    types: ['node'],
  });
  const names = entries.flatMap((entry) => {
    return undocumented(program, entry).map((name) => `${path.basename(entry)}: ${name}`);
  });
  expect(entries.length).toBeGreaterThan(3);
  expect(names).toEqual([]);
});
