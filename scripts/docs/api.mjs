// Writes api.md: every public export with its signature, by API Extractor, from the published declarations. A change of the
// public API changes that file, so it cannot go unnoticed.
//
//   node scripts/docs/api.mjs           writes it
//   node scripts/docs/api.mjs --check   fails if it is not up to date

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import extractor from '@microsoft/api-extractor';
import * as prettier from 'prettier';
import ts from 'typescript';

import { packageRoot } from '../addon-inputs.mjs';
import { writeOrCheck } from './generated.mjs';

const { Extractor, ExtractorConfig, ExtractorLogLevel } = extractor;
const file = path.join(packageRoot, 'api.md');

const NONE = { default: { logLevel: ExtractorLogLevel.None } };

/**
 * The exports of one entry point, as API Extractor reports them.
 *
 * @param {string} declarations
 * @param {string} folder For the report.
 */
function reportOf(declarations, folder) {
  const entry = path.join(packageRoot, declarations);
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: packageRoot,
      mainEntryPointFilePath: entry,
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            module: 'node16',
            target: 'es2022',
            lib: ['es2023'],
            types: ['node'],
            skipLibCheck: true,
          },
          include: [entry],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: 'report.api.md',
        includeForgottenExports: true,
        reportFolder: folder,
        reportTempFolder: folder,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        extractorMessageReporting: NONE,
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.Error } },
        tsdocMessageReporting: NONE,
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: path.join(packageRoot, 'package.json'),
  });
  const { errorCount } = Extractor.invoke(config, {
    localBuild: true,
    messageCallback: (message) => {
      // That it writes a file, and with which compiler.
      if (message.logLevel !== 'error') message.handled = true;
    },
  });
  if (errorCount > 0) throw new Error(`${declarations} cannot be read`);
  const report = readFileSync(path.join(folder, 'report.api.md'), 'utf8').replaceAll('\r\n', '\n');
  const [, code] = /```ts\n([^]*?)\n*(?:\/\/ \(No @packageDocumentation[^\n]*\)\n*)?```/.exec(report) ?? [];
  if (code === undefined) throw new Error(`no report of ${declarations}`);
  return code.replace(/^\s*(?:\/\/\/ <reference [^\n]*\n)*\s*/, '').trimEnd();
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
async function apiPage() {
  /** @type {{ exports: Record<string, string | { require: { types: string } }> }} */
  const { exports } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
  if (!existsSync(path.join(packageRoot, 'dist')))
    throw new Error('there is no dist/: run `npm run build:ts` first');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-api-'));
  try {
    /** @type {Set<string>} */
    const exportedByMain = new Set();
    const parts = Object.entries(exports).flatMap(([name, target]) => {
      if (typeof target === 'string') return [];
      const report = reportOf(target.require.types, folder);
      const shown = withoutInternalNames(report, exportedByMain);
      if (name === '.')
        for (const each of declarationsIn(shown)) if (each.exported) exportedByMain.add(each.name);
      return [`## ${path.posix.join('stripelock', name)}\n\n\`\`\`ts\n${shown}\n\`\`\`\n`];
    });
    const head =
      '# The public API\n\nEvery public export with its signature. `npm run docs` writes this file, and `npm run lint` fails if ' +
      'it is not up to date.\n[CONTRIBUTING.md](CONTRIBUTING.md#versions) says which changes need which version.\n';
    const settings = await prettier.resolveConfig(file);
    return await prettier.format([head, ...parts].join('\n'), { ...settings, filepath: file });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

writeOrCheck(file, await apiPage());
