import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pagesIn } from '../../scripts/docs/pages.mjs';
import { build } from '../../scripts/docs/site.mjs';
import { markdownFiles, root } from './pages.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-site-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const MODULE = '/**\n * What it is for.\n *\n * @module planted\n */\n\n';

/** Whether a site of one module, with these doc comments, is built without a warning. */
async function isBuilt(source: string, readme = '# Title\n'): Promise<boolean> {
  writeFileSync(path.join(folder, 'index.ts'), source);
  writeFileSync(path.join(folder, 'package.json'), '{ "name": "planted", "version": "1.0.0" }');
  writeFileSync(path.join(folder, 'README.md'), readme);
  writeFileSync(
    path.join(folder, 'tsconfig.json'),
    '{ "files": ["index.ts"], "compilerOptions": { "types": [] } }',
  );
  const built = await build(path.join(folder, 'site'), {
    entryPoints: [path.join(folder, 'index.ts')],
    tsconfig: path.join(folder, 'tsconfig.json'),
    readme: path.join(folder, 'README.md'),
    basePath: folder,
    projectDocuments: [],
    // The warnings are planted.
    logLevel: 'None',
  });
  expect(existsSync(path.join(folder, 'site/index.html'))).toBe(true);
  return built;
}

describe('the site', () => {
  it('is built where all is documented, and links lead somewhere', async () => {
    const source = `${MODULE}/** See {@link other}. */\nexport const some = 1;\n/** Other. */\nexport const other = 2;\n`;
    expect(await isBuilt(source)).toBe(true);
  });

  it.each([
    ['a link to a name that does not exist', '/** See {@link gone}. */\nexport const some = 1;\n'],
    ['a name without a doc comment', 'export const some = 1;\n'],
    ['a member without a doc comment', '/** Some. */\nexport interface Some {\n  member: number;\n}\n'],
    [
      'a type that is not exported',
      'interface Hidden {}\n/** Some. */\nexport function some(): Hidden {\n  return {};\n}\n',
    ],
    ['an unknown tag', '/** Some.\n * @gadget */\nexport const some = 1;\n'],
  ])('is refused with %s', async (_what, source) => {
    expect(await isBuilt(MODULE + source)).toBe(false);
  });

  it('is refused if a module has no description', async () => {
    expect(await isBuilt('/** Some. */\nexport const some = 1;\n')).toBe(false);
  });

  it('is refused where a page links a file that does not exist', async () => {
    expect(await isBuilt(`${MODULE}export {};\n`, '[a](gone.md)\n')).toBe(false);
  });
});

describe('the pages of the site', () => {
  it('are all Markdown files but the README, which is its first page', () => {
    expect([...pagesIn(root).keys()].sort()).toEqual(markdownFiles().filter((name) => name !== 'README.md'));
  });

  it('include a new one of docs/, with the guide', () => {
    mkdirSync(path.join(folder, 'docs'));
    mkdirSync(path.join(folder, 'examples'));
    for (const name of ['usage.md', 'errors.md', 'new.md'])
      writeFileSync(path.join(folder, 'docs', name), '# Title\n');
    expect([...pagesIn(folder)]).toEqual([
      ['docs/usage.md', 'Guide'],
      ['docs/new.md', 'Guide'],
      ['docs/errors.md', 'Reference'],
    ]);
  });
});
