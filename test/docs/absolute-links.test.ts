import { describe, expect, it } from 'vitest';
import { absoluteLinks } from '../../scripts/pack/readme.mjs';

// The README as npm shows it, without the repository around it.

const where = { repository: 'https://github.com/owner/name', ref: 'v1.2.3' };
const PAGES = 'https://github.com/owner/name/blob/v1.2.3';
const FILES = 'https://raw.githubusercontent.com/owner/name/v1.2.3';

describe('at pack time', () => {
  it.each([
    ['a link, with its place in the page', '[a](docs/a.md#part)', `[a](${PAGES}/docs/a.md#part)`],
    ['a link that is written with a dot', '[a](./docs/a.md)', `[a](${PAGES}/docs/a.md)`],
    ['a link whose text is its address', '[docs/a.md](docs/a.md)', `[docs/a.md](${PAGES}/docs/a.md)`],
    ['a link with a title', '[a](a.md "Title")', `[a](${PAGES}/a.md "Title")`],
    ['a link in angle brackets', '[a](<a.md>)', `[a](<${PAGES}/a.md>)`],
    ['a picture', '![a](a/b.svg)', `![a](${FILES}/a/b.svg)`],
    ['a picture in a link', '[![a](a.svg)](b.md) c', `[![a](${FILES}/a.svg)](${PAGES}/b.md) c`],
    ['a picture in a link to itself', '[![a](a.svg)](a.svg)', `[![a](${FILES}/a.svg)](${PAGES}/a.svg)`],
    ['a link in a table', '| a |\n| - |\n| [b](b.md) |\n', `| a |\n| - |\n| [b](${PAGES}/b.md) |\n`],
    ['a link by reference', '[a][1]\n\n[1]: a.md\n', `[a][1]\n\n[1]: ${PAGES}/a.md\n`],
    ['a picture by reference', '![a][1]\n\n[1]: a.svg\n', `![a][1]\n\n[1]: ${FILES}/a.svg\n`],
    ['several of one line', '[a](a.md), [b](b.md)', `[a](${PAGES}/a.md), [b](${PAGES}/b.md)`],
  ])('%s becomes absolute', (_what, markdown, expected) => {
    expect(absoluteLinks(markdown, where)).toBe(expected);
  });

  it.each([
    ['an absolute link', '[a](https://example.com/a.md)'],
    ['a bare address', 'https://example.com/a.md'],
    ['an address of mail', '[a](mailto:a@example.com)'],
    ['a place in the same page', '[a](#part)'],
    ['code', '`[a](a.md)`\n\n```md\n[a](a.md)\n```\n'],
    ['HTML with an absolute address', '<a href="https://example.com">a</a>'],
  ])('%s stays', (_what, markdown) => {
    expect(absoluteLinks(markdown, where)).toBe(markdown);
  });

  it.each([
    ['HTML with a relative address', '<img src="a.svg">', 'write links and pictures in Markdown'],
    ['a file outside the repository', '[a](../a.md)', '../a.md is outside the repository'],
    ['an address that its title repeats', '[a](a.md "a.md")', 'cannot rewrite a link'],
    ['an address with escapes', '[a](a\\_b.md)', 'cannot rewrite a link'],
  ])('%s is refused, not left broken', (_what, markdown, message) => {
    expect(() => absoluteLinks(markdown, where)).toThrow(message);
  });

  it('the repository is given as package.json has it', () => {
    for (const repository of [
      'git+https://github.com/owner/name.git',
      { type: 'git', url: 'git+https://github.com/owner/name.git' },
      'https://github.com/owner/name/',
    ]) {
      expect(absoluteLinks('[a](a.md)', { repository, ref: 'v1.2.3' })).toBe(`[a](${PAGES}/a.md)`);
    }
    const repository = 'https://example.com/owner/name';
    expect(() => absoluteLinks('[a](a.md)', { repository, ref: 'main' })).toThrow('on GitHub');
  });
});
