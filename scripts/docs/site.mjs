// Builds the site: the API from the doc comments, with the Markdown pages. Fails on any warning, and on broken links.
//
//   node scripts/docs/site.mjs           into site/
//   node scripts/docs/site.mjs <folder>  into another folder
//
// Needs no network: links to other sites are not followed.

import { readFileSync } from 'node:fs';
import path from 'node:path';

import { Application, Converter, LogLevel } from 'typedoc';

import { isMain, packageRoot } from '../addon-inputs.mjs';
import { entries } from '../build/compile.mjs';
import { loadTool } from '../large-tools.mjs';
import { groups, pagesIn } from './pages.mjs';

/** What the addresses of files on GitHub start with. */
const { repository } = JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8'));
const address = repository.url.replace(/^git\+|\.git$/g, '');

/** @param {string} name */
const inPackage = (name) => path.join(packageRoot, name);

/** @type {import('typedoc').TypeDocOptions} */
const options = {
  name: 'stripelock',
  entryPoints: entries.map((name) => inPackage(`lib/${name}.ts`)),
  tsconfig: inPackage('tsconfig.json'),
  readme: inPackage('README.md'),
  includeVersion: true,
  alwaysCreateEntryPointModule: true,
  // Independent of the clone's remote and state.
  disableGit: true,
  gitRevision: 'main',
  basePath: packageRoot,
  sourceLinkTemplate: `${address}/blob/{gitRevision}/{path}#L{line}`,
  navigationLinks: { GitHub: address, npm: 'https://www.npmjs.com/package/stripelock' },
  navigation: { includeGroups: true, includeFolders: false },
  // Every page has a heading of its own.
  headings: { readme: false, document: false },
  groupOrder: [...groups, 'Modules', '*'],
  sort: ['kind', 'instance-first', 'alphabetical-ignoring-documents'],
  sortEntryPoints: true,
  excludeInternal: true,
  customCss: inPackage('scripts/docs/site.css'),
  favicon: inPackage('scripts/docs/icon.svg'),
  highlightLanguages: [
    'typescript',
    'javascript',
    'js',
    'ts',
    'json',
    'sh',
    'sql',
    'lua',
    'ini',
    'cpp',
    'dockerfile',
  ],
  ignoredHighlightLanguages: ['text'],
  requiredToBeDocumented: [
    'Module',
    'Variable',
    'Function',
    'Class',
    'Interface',
    'TypeAlias',
    'Method',
    'Property',
    'Accessor',
    'CallSignature',
  ],
  validation: { notExported: true, invalidLink: true, invalidPath: true, notDocumented: true },
  logLevel: LogLevel.Warn,
};

/** @typedef {import('typedoc').DocumentReflection} Page */

/**
 * Calls a page by its heading, and puts it into its group.
 *
 * @param {Page} page
 * @param {string} group
 */
function nameByHeading(page, group) {
  const [first] = page.content;
  const title = /^#\s+(.+)$/m.exec(first?.text ?? '')?.[1];
  if (title === undefined) throw new Error(`${page.name} has no heading`);
  page.name = title.replaceAll('`', '');
  page.frontmatter['group'] = group;
}

/**
 * Builds the site.
 *
 * @param {string} folder
 * @param {import('typedoc').TypeDocOptions} [others] Options that differ.
 * @returns {Promise<boolean>} Whether it did without an error and without a warning.
 */
export async function build(folder, others = {}) {
  const pages = pagesIn(packageRoot);
  const projectDocuments = [...pages.keys()].map(inPackage);
  const app = await Application.bootstrap({ ...options, projectDocuments, ...others });
  const left = [...pages.values()];
  // They are created in the order in which they are named.
  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_context, page) => {
    nameByHeading(/** @type {Page} */ (page), left.shift() ?? '');
  });
  const project = await app.convert();
  if (project === undefined) return false;
  app.validate(project);
  await app.generateDocs(project, folder);
  return !app.logger.hasErrors() && !app.logger.hasWarnings();
}

/** @typedef {{ url: string, parent?: string, state: string, status?: number }} Link */

/**
 * The links of the site to files and places that do not exist.
 *
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
export async function brokenLinks(folder) {
  const { LinkChecker } = await loadTool('linkinator/build/src/index.js');
  /** @type {{ links: Link[] }} */
  const { links } = await new LinkChecker().check({
    path: '.',
    serverRoot: folder,
    recurse: true,
    checkFragments: true,
    // The checker keeps idle connections for 30 s, its server for 5 s: a request on one that the server just closed fails.
    retryErrors: true,
    retryErrorsCount: 2,
    retryErrorsJitter: 0,
    linksToSkip: ['^(?!https?://localhost[:/])'],
  });
  const followed = links.filter(({ state }) => state !== 'SKIPPED');
  if (followed.length === 0) throw new Error('the site has no links');
  const lines = links
    .filter(({ state }) => state === 'BROKEN')
    .map(
      ({ url, parent, status }) => `${parent ?? ''}: ${url} (${status === 200 ? 'no such place' : status})`,
    );
  return [...new Set(lines)].sort();
}

if (isMain(import.meta.url)) {
  const folder = path.resolve(process.argv[2] ?? inPackage('site'));
  const built = await build(folder);
  const broken = built ? await brokenLinks(folder) : [];
  for (const line of broken) console.error(line);
  if (built && broken.length === 0) console.log(path.relative(process.cwd(), folder) || folder);
  else process.exitCode = 1;
}
