// Opens every page of the site in a real browser, as on a desk and as on a phone, and reports faults.
//
//   node scripts/docs/browser.mjs [folder]   the site that `npm run docs` has built
//
// A missing browser is reported loudly, and is a failure in CI.
//
// A page must load nothing from other hosts, write no error to the console, show its pictures, keep the lines of its code, and
// not scroll sideways. The remedies of a table of errors must be in sight, and the search must find something. Pages of the API
// all have the same layout, so they are opened as on a phone only, where there is the least room.

import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';

import handler from 'serve-handler';

import { isMain, packageRoot } from '../addon-inputs.mjs';
import { loadTool } from '../large-tools.mjs';

/** Chromium: from CHROME, or in the places where Debian and Google install it. */
const browsers = [process.env['CHROME'] ?? '', '/usr/bin/chromium', '/usr/bin/google-chrome'];
export const browser = browsers.find((file) => file !== '' && existsSync(file));
export const BROWSER_ADVICE = 'apt-get install chromium, or set CHROME to the program of another one';

/** A desk, and a small phone. */
const SIZES = [
  { name: 'desk', width: 1280, height: 900, ofAll: false },
  { name: 'phone', width: 360, height: 740, ofAll: true },
];
/** Milliseconds: only a hang takes longer. CI does this beside other work. */
const HANGS = 180_000;
/** The text to search for. */
const WANTED = 'KeyedLock';

/**
 * All pages, by their paths.
 *
 * @param {string} folder
 */
const pagesOf = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.html'))
    .map((name) => name.replaceAll(path.sep, '/'))
    .sort();

/** Whether a person wrote the page, not a tool. */
const isWritten = (/** @type {string} */ name) => name.startsWith('documents/') || !name.includes('/');

/**
 * The faults of the loaded page. Runs in the browser.
 *
 * @returns {string[]}
 */
function look() {
  const { document, getComputedStyle } = /** @type {any} */ (globalThis);
  const { scrollWidth, clientWidth } = document.documentElement;
  const wrong = [];
  if (scrollWidth > clientWidth) wrong.push(`scrolls sideways: ${scrollWidth} of ${clientWidth} pixels`);
  for (const code of document.querySelectorAll('pre, pre > code')) {
    if (getComputedStyle(code).whiteSpace !== 'pre') wrong.push('lines of code wrap');
  }
  for (const table of document.querySelectorAll('table')) {
    if (table.querySelector('th:last-child')?.textContent !== 'what to do') continue;
    const ends = [...table.querySelectorAll('td:last-child')].map(
      (cell) => cell.getBoundingClientRect().right,
    );
    if (Math.max(...ends) > clientWidth) wrong.push('what to do about an error is out of sight');
  }
  for (const image of document.images) if (image.naturalWidth === 0) wrong.push(`no picture at ${image.src}`);
  return wrong;
}

/**
 * @param {any} page Of puppeteer-core.
 * @param {string} url
 */
async function wrongOn(page, url) {
  /** @type {string[]} */
  const wrong = [];
  const { host } = new URL(url);
  const onMessage = (/** @type {any} */ message) => {
    if (message.type() === 'error') wrong.push(`console: ${message.text()}`);
  };
  const onError = (/** @type {unknown} */ error) => wrong.push(`error: ${String(error)}`);
  const onRequest = (/** @type {any} */ request) => {
    const asked = new URL(request.url());
    if (asked.protocol !== 'data:' && asked.host !== host) wrong.push(`loads ${request.url()}`);
  };
  page.on('console', onMessage).on('pageerror', onError).on('request', onRequest);
  await page.goto(url, { waitUntil: 'load' });
  wrong.push(...(await page.evaluate(look)));
  page.off('console', onMessage).off('pageerror', onError).off('request', onRequest);
  return wrong;
}

/**
 * The number of search results.
 *
 * @param {any} page Of puppeteer-core.
 * @param {string} url
 */
async function found(page, url) {
  await page.goto(url, { waitUntil: 'load' });
  await page.click('#tsd-search-trigger');
  await page.waitForSelector('#tsd-search-input', { visible: true });
  await page.type('#tsd-search-input', WANTED);
  await page.waitForSelector('#tsd-search-results li a');
  return (await page.$$('#tsd-search-results li a')).length;
}

/**
 * The faults of the site.
 *
 * @param {string} folder
 * @param {readonly string[]} [pages]
 * @returns {Promise<string[]>}
 */
export async function wrongInBrowser(folder, pages = pagesOf(folder)) {
  const { default: puppeteer } = await loadTool('puppeteer-core/lib/esm/puppeteer/puppeteer-core.js');
  const server = http.createServer(
    (request, response) => void handler(request, response, { public: folder, cleanUrls: false }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const opened = await puppeteer.launch({
    executablePath: browser ?? '',
    // CI runs as root, which may not use the sandbox. The pages are our own.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    timeout: HANGS,
    protocolTimeout: HANGS,
  });
  /** @type {string[]} */
  const wrong = [];
  try {
    // One page at a time, because browsers slow down hidden tabs.
    const page = await opened.newPage();
    page.setDefaultTimeout(HANGS);
    for (const size of SIZES) {
      await page.setViewport(size);
      for (const name of pages) {
        if (!size.ofAll && !isWritten(name)) continue;
        const lines = await wrongOn(page, `http://127.0.0.1:${port}/${name}`);
        wrong.push(...lines.map((line) => `${name}, ${size.name}: ${line}`));
      }
    }
    if ((await found(page, `http://127.0.0.1:${port}/index.html`)) === 0) {
      wrong.push(`the search does not find ${WANTED}`);
    }
  } finally {
    await opened.close();
    server.close();
  }
  return wrong;
}

if (isMain(import.meta.url)) {
  const folder = path.resolve(process.argv[2] ?? path.join(packageRoot, 'site'));
  if (browser === undefined) {
    console.error(`NOT CHECKED in a browser: there is none. ${BROWSER_ADVICE}.`);
    if (process.env['CI']) process.exitCode = 1;
  } else {
    const wrong = await wrongInBrowser(folder);
    for (const line of wrong) console.error(line);
    const count = pagesOf(folder).length;
    console.log(wrong.length === 0 ? `${count} pages have no faults in a browser` : `${wrong.length} faults`);
    if (wrong.length > 0) process.exitCode = 1;
  }
}
