// The README of the tarball. npm shows it without the repository around it, so relative links and pictures must become
// absolute ones.

import path from 'node:path';

import { htmlIn, targetsIn } from '../docs/markdown.mjs';

/** A scheme, another host, or a place in the same page. */
const STAYS = /^(?:[a-z][a-z\d+.-]*:|\/\/|#)/i;
const RELATIVE_HTML = /\b(?:src|href|srcset)\s*=\s*["']?(?![a-z][a-z\d+.-]*:|\/\/|#)[\w./]/i;

/**
 * The page with absolute links and pictures. Places in the same page stay as they are. A link shows the file on GitHub,
 * a picture is the file itself. The page is that of the root folder.
 *
 * Throws an Error where a target cannot be rewritten: in HTML, or outside the repository.
 *
 * @param {string} markdown
 * @param {object} where
 * @param {string | { url: string }} where.repository As in package.json: a repository on GitHub.
 * @param {string} where.ref A tag, a branch or a commit.
 * @returns {string}
 */
export function absoluteLinks(markdown, { repository, ref }) {
  const { pages, files } = addresses(repository, ref);
  for (const html of htmlIn(markdown)) {
    if (RELATIVE_HTML.test(html)) throw new Error(`write links and pictures in Markdown, not as ${html}`);
  }
  const targets = targetsIn(markdown);
  const wanted = targets.map(({ url, picture }) =>
    STAYS.test(url) ? url : (picture ? files : pages) + pathIn(url),
  );
  const edits = targets
    // The address is the last part: before it comes the text, which may be another link or picture.
    .map(({ url, end }, i) => ({ at: markdown.lastIndexOf(url, end - url.length), url, i }))
    .filter(({ url, i }) => wanted[i] !== url)
    // From the end, so that the places before stay true.
    .sort((a, b) => b.at - a.at);
  let result = markdown;
  for (const { at, url, i } of edits)
    result = result.slice(0, at) + wanted[i] + result.slice(at + url.length);
  // The found text may be a title that repeats the address.
  const got = targetsIn(result).map(({ url }) => url);
  const wrong = wanted.find((url, i) => got[i] !== url);
  if (wrong !== undefined || got.length !== wanted.length) {
    throw new Error(
      `cannot rewrite a link, to ${wrong ?? 'nothing'}: write its address as it is, and only once`,
    );
  }
  return result;
}

/**
 * The path of a target from the root of the repository, with its place in the page.
 *
 * @param {string} url
 */
function pathIn(url) {
  const normal = path.posix.normalize(url).replace(/^\//, '');
  if (/^\.\.(?:\/|$)/.test(normal)) throw new Error(`${url} is outside the repository`);
  return normal;
}

/**
 * @param {string | { url: string }} repository
 * @param {string} ref
 */
function addresses(repository, ref) {
  const text = typeof repository === 'string' ? repository : repository.url;
  const [, name] = /^(?:git\+)?https:\/\/github\.com\/([\w.-]+\/[\w.-]+?)(?:\.git)?\/?$/.exec(text) ?? [];
  if (name === undefined) throw new Error(`not the https address of a repository on GitHub: ${text}`);
  return {
    pages: `https://github.com/${name}/blob/${ref}/`,
    files: `https://raw.githubusercontent.com/${name}/${ref}/`,
  };
}
