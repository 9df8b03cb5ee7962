import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { remark } from 'remark';
import remarkGfm from 'remark-gfm';
import remarkValidateLinks from 'remark-validate-links';
import { engine } from 'unified-engine';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { targetsIn } from '../../scripts/docs/markdown.mjs';
import { brokenLinks } from '../../scripts/docs/site.mjs';
import { hasTools, TOOLS_ADVICE } from '../../scripts/large-tools.mjs';
import { absoluteLinks } from '../../scripts/pack/readme.mjs';
import { reportMissing } from '../support/requirements.js';
import { markdownFiles, root, textOf } from './pages.js';

const manifest = JSON.parse(textOf('package.json')) as {
  repository: { url: string };
  homepage: string;
  bugs: string;
};
const address = manifest.repository.url.replace(/^git\+|\.git$/g, '');

/** Links to files and headings that do not exist. Absolute links into this repository count as local ones. */
function brokenIn(cwd: string, files: string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    engine(
      {
        processor: remark().use(remarkGfm),
        cwd,
        files,
        // The engine's types do not support plugins with options.
        plugins: [[remarkValidateLinks as never, { repository: address, root: cwd }]],
        quiet: true,
        streamError: new Writable({ write: (_chunk, _encoding, done) => done() }),
      },
      (error, _code, context) => {
        if (error) reject(error);
        else resolve(context!.files.flatMap(({ messages }) => messages.map(String)));
      },
    );
  });
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-links-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the links of the pages', () => {
  it('lead to files and headings that exist', async () => {
    const files = markdownFiles();
    expect(files).toContain('docs/guarantees.md');
    expect(await brokenIn(root, files)).toEqual([]);
  });

  it('also do so in the README that npm shows, where all are absolute', async () => {
    const readme = absoluteLinks(textOf('README.md'), { repository: manifest.repository, ref: 'HEAD' });
    const urls = targetsIn(readme).map(({ url }) => url);
    expect(urls.filter((url) => !/^(?:https:|#)/.test(url))).toEqual([]);

    // Where each address leads in the repository, as a page of links.
    const files = `https://raw.githubusercontent.com/${address.split('/').slice(-2).join('/')}/HEAD/`;
    const ours = urls.filter((url) => url.startsWith(files) || url.startsWith(`${address}/`));
    expect(ours.length).toBeGreaterThan(10);
    const page = ours.map((url) => `[a](${url.replace(files, `${address}/blob/HEAD/`)})\n`).join('');
    expect(await brokenIn(root, [...markdownFiles(), writtenTo('links.md', page)])).toEqual([]);
  });

  it('are found where they lead nowhere', async () => {
    writtenTo('other.md', '# Part\n');
    const page = writtenTo(
      'page.md',
      `[a](gone.md)\n[b](other.md#gone)\n[c](#gone)\n[d](other.md#part)\n![e](gone.svg)\n[f](${address}/blob/HEAD/gone.ts)\n`,
    );
    const broken = await brokenIn(folder, [page, path.join(folder, 'other.md')]);
    expect(broken.map((message) => /[:](\d+):\d+/.exec(message)?.[1])).toEqual(['1', '2', '3', '5', '6']);
  });
});

it('the links that npm shows beside the README lead to the same repository', () => {
  const { homepage, bugs } = manifest;
  expect({ homepage, bugs }).toEqual({ homepage: `${address}#readme`, bugs: `${address}/issues` });
});

if (!hasTools) reportMissing('the links of the site', 'package linkinator', TOOLS_ADVICE);

describe.skipIf(!hasTools)('the links of the site', () => {
  it('are found where they lead nowhere, and not followed to other sites', async () => {
    writtenTo('other.html', '<h1 id="part">Part</h1>');
    writtenTo(
      'index.html',
      '<a href="other.html#part">a</a><a href="other.html#gone">b</a><img src="gone.svg">' +
        '<a href="https://stripelock.invalid/">c</a>',
    );
    const broken = await brokenLinks(folder);
    expect(broken).toHaveLength(2);
    expect(broken.join('\n')).toMatch(/gone\.svg \(404\)\n.*other\.html#gone \(no such place\)$/);
  });
});

function writtenTo(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
}
