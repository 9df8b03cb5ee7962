import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { browser, BROWSER_ADVICE, wrongInBrowser } from '../../scripts/docs/browser.mjs';
import { reportMissing } from '../support/requirements.js';

/** A search with a result, in the form that typedoc gives it. */
const SEARCH = `<button id="tsd-search-trigger">Search</button>
<input id="tsd-search-input"><ul id="tsd-search-results"><li><a href="#">KeyedLock</a></li></ul>`;

/** Faults of a page: its body, and the report. */
const faults: Record<string, readonly [body: string, said: string]> = {
  'an error in the console': ['<script>console.error("no")</script>', 'console: no'],
  'an exception': ['<script>throw new Error("no")</script>', 'error: Error: no'],
  'something of another host': [
    '<img src="http://localhost:1/a.png" width="1">',
    'loads http://localhost:1/a.png',
  ],
  'a picture that is missing': ['<img src="missing.png">', 'no picture at'],
  'code whose lines wrap': ['<pre style="white-space: pre-wrap">wait();</pre>', 'lines of code wrap'],
  'a remedy beside the screen': [
    '<div style="overflow: auto"><table style="width: 2000px"><tr><th>code</th><th>what to do</th></tr><tr><td>E</td><td>retry</td></tr></table></div>',
    'what to do about an error is out of sight',
  ],
  'more width than a phone': ['<div style="width: 2000px">wide</div>', 'scrolls sideways'],
};

async function wrongOn(body: string): Promise<string[]> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-browser-'));
  try {
    const icon = '<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">';
    writeFileSync(
      path.join(folder, 'index.html'),
      `<!doctype html><html><head>${icon}</head><body>${SEARCH}</body></html>`,
    );
    writeFileSync(
      path.join(folder, 'page.html'),
      `<!doctype html><html><head>${icon}</head><body>${body}</body></html>`,
    );
    return await wrongInBrowser(folder, ['index.html', 'page.html']);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (browser === undefined) reportMissing('the site in a browser', 'browser', BROWSER_ADVICE);

it.runIf(browser)('finds nothing wrong on pages that are as they should be', async () => {
  expect(await wrongOn('<p>As it should be.</p>')).toEqual([]);
});

it.runIf(browser).each(Object.entries(faults))('finds %s', async (_fault, [body, said]) => {
  const wrong = await wrongOn(body);
  expect(wrong).toContainEqual(expect.stringMatching(/^page\.html, phone: /));
  expect(wrong.join('\n')).toContain(said);
});
