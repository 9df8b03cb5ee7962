// Writes api.md: every public export with its signature, by API Extractor, from the declarations that are published. A
// change of the public API is a change of that file, so that nobody changes it without noticing.
//
//   node scripts/docs/api.mjs           writes it
//   node scripts/docs/api.mjs --check   fails if it is not up to date

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import extractor from '@microsoft/api-extractor';
import * as prettier from 'prettier';

import { isMain, packageRoot } from '../addon-inputs.mjs';

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

/** The page. */
export async function apiPage() {
  /** @type {{ exports: Record<string, string | { require: { types: string } }> }} */
  const { exports } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
  if (!existsSync(path.join(packageRoot, 'dist')))
    throw new Error('there is no dist/: run `npm run build:ts` first');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-api-'));
  try {
    const parts = Object.entries(exports).flatMap(([name, target]) => {
      if (typeof target === 'string') return [];
      const report = reportOf(target.require.types, folder);
      return [`## ${path.posix.join('stripelock', name)}\n\n\`\`\`ts\n${report}\n\`\`\`\n`];
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

if (isMain(import.meta.url)) {
  const page = await apiPage();
  if (!process.argv.includes('--check')) {
    writeFileSync(file, page);
  } else if (readFileSync(file, 'utf8') !== page) {
    console.error('api.md is not up to date: `npm run docs` writes it. Is the change of the API wanted?');
    process.exitCode = 1;
  }
}
