// Writes api.md: every public export with its signature, from the published declarations. A change of the public API changes
// that file, so it cannot go unnoticed.
//
//   node scripts/docs/api.mjs           writes it
//   node scripts/docs/api.mjs --check   fails if it is not up to date

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import * as prettier from 'prettier';
import ts from 'typescript';

import { isMain, packageRoot } from '../addon-inputs.mjs';

const file = path.join(packageRoot, 'api.md');

const printer = ts.createPrinter({ removeComments: true });

/** @param {string} name Of a file in dist/. */
function parsed(name) {
  const text = readFileSync(path.join(packageRoot, 'dist', name), 'utf8');
  return ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
}

/**
 * The names of a statement's declarations.
 *
 * @param {ts.Statement} statement
 */
function namesOf(statement) {
  const named = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
  return named.flatMap((node) => /** @type {ts.DeclarationStatement} */ (node).name?.getText() ?? []);
}

/**
 * The text of a declaration, without comments and private members.
 *
 * @param {ts.Statement} statement
 * @param {boolean} exported
 */
function textOf(statement, exported) {
  const isPrivate = (/** @type {ts.ClassElement} */ member) =>
    (ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) !== 0 ||
    (member.name !== undefined && ts.isPrivateIdentifier(member.name));
  const shown = ts.isClassDeclaration(statement)
    ? ts.factory.updateClassDeclaration(
        statement,
        statement.modifiers,
        statement.name,
        statement.typeParameters,
        statement.heritageClauses,
        statement.members.filter((member) => !isPrivate(member)),
      )
    : statement;
  const text = printer.printNode(ts.EmitHint.Unspecified, shown, statement.getSourceFile());
  return (exported ? 'export ' : '') + text.replace(/^declare /, '');
}

/**
 * The names of the types that a declaration uses.
 *
 * @param {ts.Node} node
 * @returns {string[]}
 */
function usedBy(node) {
  const own =
    (ts.isTypeReferenceNode(node) && node.typeName.getText()) ||
    (ts.isTypeQueryNode(node) && node.exprName.getText()) ||
    (ts.isExpressionWithTypeArguments(node) && node.expression.getText());
  /** @type {string[]} */
  const names = own ? [own] : [];
  ts.forEachChild(node, (child) => void names.push(...usedBy(child)));
  return names;
}

/**
 * The exports of one entry point, sorted, and the declarations that their types use.
 *
 * @param {string} entry Its declarations: a list of names of the bundle.
 * @param {ts.SourceFile} bundle
 */
function reportOf(entry, bundle) {
  const exported = parsed(entry).statements.flatMap((statement) =>
    ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)
      ? statement.exportClause.elements.map(({ name }) => name.text)
      : [],
  );
  /** @type {Map<string, ts.Statement[]>} */
  const declared = new Map();
  for (const statement of bundle.statements) {
    for (const name of namesOf(statement)) declared.set(name, [...(declared.get(name) ?? []), statement]);
  }
  /** @type {Map<string, string>} */
  const report = new Map();
  const left = [...exported];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    const statements = declared.get(name);
    if (statements === undefined || report.has(name)) continue;
    const text = statements.map((statement) => textOf(statement, exported.includes(name ?? ''))).join('\n\n');
    report.set(name, text);
    left.push(...statements.flatMap(usedBy));
  }
  const sorted = [...report].sort(([a], [b]) => a.localeCompare(b, 'en'));
  return sorted.map(([, text]) => text).join('\n\n');
}

/**
 * @typedef {object} Declaration A statement of a report.
 * @property {string} name
 * @property {string} text
 * @property {ts.Statement} node
 * @property {boolean} exported
 */

/**
 * @param {string} report
 * @returns {Declaration[]}
 */
function declarationsIn(report) {
  const file = ts.createSourceFile('report.ts', report, ts.ScriptTarget.Latest, true);
  return file.statements.map((node) => {
    const named = ts.isVariableStatement(node) ? node.declarationList.declarations[0] : node;
    const name = /** @type {ts.DeclarationStatement} */ (named).name?.getText() ?? '';
    const exported =
      (ts.getCombinedModifierFlags(/** @type {any} */ (named)) & ts.ModifierFlags.Export) !== 0;
    return { name, text: node.getFullText().trim(), node, exported };
  });
}

/**
 * A report without the names of the declarations' bundler. A declaration that is not exported is shown in one of three ways:
 *
 * - An interface that extends it lists its members, too.
 * - A class behind an exported type gets the name of that type.
 * - Any other is listed, unless the main entry point exports it.
 *
 * @param {string} report
 * @param {ReadonlySet<string>} exportedByMain
 */
function withoutInternalNames(report, exportedByMain) {
  const all = declarationsIn(report);
  const hidden = new Map(all.filter(({ exported }) => !exported).map((each) => [each.name, each]));
  const replaced = new Set(exportedByMain);
  /** The class that a type stands for. */
  const classOf = (/** @type {ts.Statement} */ node) => {
    if (!ts.isTypeAliasDeclaration(node) || !ts.isTypeReferenceNode(node.type)) return undefined;
    const target = hidden.get(node.type.typeName.getText());
    return target && ts.isClassDeclaration(target.node) ? target : undefined;
  };
  const classNames = new Set();
  for (const { name, node } of all) {
    const known = classOf(node);
    if (known === undefined) continue;
    classNames.add(name);
    replaced.add(known.name);
  }

  /** @param {Declaration} declaration */
  const shown = ({ name, text, node }) => {
    const known = classOf(node);
    if (known !== undefined) return known.text.replace(`class ${known.name}`, `export class ${name}`);
    // The class stands for the type and for the constructor.
    if (ts.isVariableStatement(node) && classNames.has(name)) return '';
    const base = ts.isInterfaceDeclaration(node) && node.heritageClauses?.[0]?.types[0]?.getText();
    const inherited = base && hidden.get(base);
    if (!inherited || exportedByMain.has(base) || !ts.isInterfaceDeclaration(inherited.node)) return text;
    replaced.add(base);
    const members = inherited.node.members.map((member) => member.getText()).join('\n');
    return text.replace(` extends ${base} {`, ` {\n${members}`);
  };
  return all
    .map((declaration) => ({ ...declaration, text: shown(declaration) }))
    .filter(({ name, exported, text }) => text !== '' && (exported || !replaced.has(name)))
    .map(({ text }) => text)
    .join('\n\n');
}

/** The page. */
export async function apiPage() {
  /** @type {{ exports: Record<string, string | { require: { types: string } }> }} */
  const { exports } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
  if (!existsSync(path.join(packageRoot, 'dist')))
    throw new Error('there is no dist/: run `npm run build:ts` first');
  const bundle = parsed('stripelock.d.cts');
  /** @type {Set<string>} */
  const exportedByMain = new Set();
  const parts = Object.entries(exports).flatMap(([name, target]) => {
    if (typeof target === 'string') return [];
    const report = reportOf(path.basename(target.require.types), bundle);
    const shown = withoutInternalNames(report, exportedByMain);
    if (name === '.')
      for (const each of declarationsIn(shown)) if (each.exported) exportedByMain.add(each.name);
    return [`## ${path.posix.join('stripelock', name)}\n\n\`\`\`ts\n${shown}\n\`\`\`\n`];
  });
  const head =
    '# The public API\n\nEvery public export with its signature. `npm run docs` writes this file, and `npm run lint` fails if ' +
    'it is not up to date.\n[CONTRIBUTING.md](CONTRIBUTING.md#versions) says which changes need which version.\n';
  const settings = await prettier.resolveConfig(file);
  return prettier.format([head, ...parts].join('\n'), { ...settings, filepath: file });
}

if (isMain(import.meta.url)) {
  const page = await apiPage();
  if (!process.argv.includes('--check')) {
    writeFileSync(file, page);
  } else if (readFileSync(file, 'utf8') !== page) {
    console.error('api.md is not up to date: `npm run docs` writes it. Is the change of the API wanted?');
    process.exitCode = 1;
  }
}
