// Opens every page of the site in a real browser, as on a desk and as on a phone, and reports faults.
//
//   node scripts/docs/browser.mjs [folder]   the site that `npm run docs` has built
//
// A missing browser is reported loudly, and is a failure in CI.
//
// A page must load nothing from other hosts, write no error to the console, show its pictures, keep the lines of its code, and
// not scroll sideways. The remedies of a table of errors must be in sight. Pages of the API all have the same layout, so they
// are opened as on a phone only, where there is the least room.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';

import { isMain, packageRoot } from '../addon-inputs.mjs';

/** Chromium: from CHROME, or in the places where Debian and Google install it. */
const browsers = [process.env['CHROME'] ?? '', '/usr/bin/chromium', '/usr/bin/google-chrome'];
export const browser = browsers.find((file) => file !== '' && existsSync(file));
export const BROWSER_ADVICE = 'apt-get install chromium, or set CHROME to the program of another one';

/** A desk, and a small phone. */
const SIZES = [
  { size: 'desk', width: 1280, height: 900, ofAll: false },
  { size: 'phone', width: 360, height: 740, ofAll: true },
];
/** Milliseconds: only a hang takes longer. CI does this beside other work. */
const HANGS = 300_000;

/** @type {Record<string, string>} */
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

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

/** Put at the start of each page: collects its errors. */
const LISTENER = `<script>
window.wrong = [];
console.error = (...words) => window.wrong.push('console: ' + words.join(' '));
addEventListener('error', ({ error }) => error && window.wrong.push('error: ' + error));
</script>`;

/**
 * Runs in the browser. Opens each page in a frame, and sends the faults of all to the server.
 *
 * @param {readonly { name: string, size: string, width: number, height: number }[]} views
 */
async function check(views) {
  const { document, fetch, getComputedStyle, location } = /** @type {any} */ (globalThis);
  const wrong = [];
  for (const { name, size, width, height } of views) {
    const frame = document.createElement('iframe');
    Object.assign(frame, { src: `/${name}`, width, height });
    const loaded = new Promise((resolve) => frame.addEventListener('load', resolve));
    document.body.append(frame);
    await loaded;
    await new Promise((resolve) => setTimeout(resolve, 0));
    const page = frame.contentDocument;
    const faults = [...frame.contentWindow.wrong];
    for (const { name: url } of frame.contentWindow.performance.getEntriesByType('resource')) {
      if (!url.startsWith('data:') && new URL(url).host !== location.host) faults.push(`loads ${url}`);
    }
    const { scrollWidth, clientWidth } = page.documentElement;
    if (scrollWidth > clientWidth) faults.push(`scrolls sideways: ${scrollWidth} of ${clientWidth} pixels`);
    for (const code of page.querySelectorAll('pre, pre > code')) {
      if (getComputedStyle(code).whiteSpace !== 'pre') faults.push('lines of code wrap');
    }
    for (const table of page.querySelectorAll('table')) {
      if (table.querySelector('th:last-child')?.textContent !== 'what to do') continue;
      const cells = [...table.querySelectorAll('td:last-child')];
      if (cells.some((cell) => cell.getBoundingClientRect().right > clientWidth))
        faults.push('what to do about an error is out of sight');
    }
    for (const image of page.images) if (image.naturalWidth === 0) faults.push(`no picture at ${image.src}`);
    wrong.push(...faults.map((fault) => `${name}, ${size}: ${fault}`));
    frame.remove();
  }
  await fetch('/report', { method: 'POST', body: JSON.stringify(wrong) });
}

/**
 * The faults of the site.
 *
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
export async function wrongInBrowser(folder) {
  const views = SIZES.flatMap((size) =>
    pagesOf(folder).flatMap((name) => (size.ofAll || isWritten(name) ? [{ name, ...size }] : [])),
  );
  const start = `<!doctype html><body><script>(${check})(${JSON.stringify(views)})</script>`;
  const profile = mkdtempSync(path.join(os.tmpdir(), 'stripelock-browser-'));
  /** @type {(wrong: string[]) => void} */
  let report = () => {};
  /** @type {Promise<string[]>} */
  const reported = new Promise((resolve) => (report = resolve));
  const server = http.createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost');
    if (pathname === '/report') return report(JSON.parse(await text(request)));
    const file = path.join(folder, decodeURIComponent(pathname));
    const extension = path.extname(file);
    if (pathname !== '/start' && !existsSync(file)) return response.writeHead(404).end();
    response.setHeader('content-type', TYPES[extension] ?? 'text/html');
    if (pathname === '/start') return response.end(start);
    if (extension !== '.html') return response.end(readFileSync(file));
    return response.end(readFileSync(file, 'utf8').replace('<head>', `<head>${LISTENER}`));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  // CI runs as root, which may not use the sandbox. The pages are our own.
  const options = ['--headless', '--no-sandbox', '--disable-dev-shm-usage', `--user-data-dir=${profile}`];
  const program = spawn(browser ?? '', [...options, `http://127.0.0.1:${port}/start`], {
    detached: true,
    stdio: 'ignore',
  });
  try {
    const timeout = AbortSignal.timeout(HANGS);
    const hangs = once(timeout, 'abort').then(() => Promise.reject(timeout.reason));
    const ends = once(program, 'exit').then(() => Promise.reject(new Error('the browser has ended')));
    return await Promise.race([reported, hangs, ends]);
  } finally {
    if (program.exitCode === null && program.pid !== undefined) process.kill(-program.pid, 'SIGKILL');
    server.closeAllConnections();
    server.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

if (isMain(import.meta.url)) {
  const folder = path.resolve(process.argv[2] ?? path.join(packageRoot, 'site'));
  if (browser === undefined) {
    console.error(`NOT CHECKED in a browser: none is installed. ${BROWSER_ADVICE}.`);
    if (process.env['CI']) process.exitCode = 1;
  } else {
    const wrong = await wrongInBrowser(folder);
    for (const line of wrong) console.error(line);
    console.log(
      wrong.length === 0
        ? `${pagesOf(folder).length} pages have no fault in a browser`
        : `${wrong.length} faults`,
    );
    if (wrong.length > 0) process.exitCode = 1;
  }
}
