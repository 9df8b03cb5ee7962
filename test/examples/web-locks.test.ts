import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder, PACKAGE_ROOT, removeFolder } from '../support/package-copy.js';
import { runNode } from '../support/programs.js';
import { runExample } from './run-example.js';

const EXAMPLE = path.join(PACKAGE_ROOT, 'examples/web-locks');

it('threads lead one after the other, though the first one is terminated', async () => {
  const lines = [
    'first has read the settings',
    'first leads',
    'second has read the settings',
    'second waits for its turn',
    'third has read the settings',
    'third waits for its turn',
    'the first is terminated',
    'second leads',
    'second is done, 1 still wait',
    'third leads',
    'third is done, 0 still wait',
  ];
  const { code, stdout, stderr } = await runExample('web-locks/web-locks.mjs');
  expect({ code, stderr, lines: stdout.trim().split('\n') }).toEqual({ code: 0, stderr: '', lines });
});

it('the same file runs where the import is navigator.locks, as in a browser', async () => {
  const folder = await makeFolder();
  try {
    const page = await readFile(path.join(EXAMPLE, 'index.html'), 'utf8');
    const [, map] = /<script type="importmap">(.*?)<\/script>/s.exec(page)!;
    expect(JSON.parse(map!)).toEqual({ imports: { 'stripelock/web-locks': './browser.mjs' } });
    // In Node a package takes the place of the import map.
    const installed = path.join(folder, 'node_modules/stripelock');
    await mkdir(installed, { recursive: true });
    await cp(path.join(EXAMPLE, 'browser.mjs'), path.join(installed, 'browser.mjs'));
    await cp(path.join(EXAMPLE, 'program.mjs'), path.join(folder, 'program.mjs'));
    await writeFile(
      path.join(installed, 'package.json'),
      JSON.stringify({ exports: { './web-locks': './browser.mjs' } }),
    );
    const entry = path.join(PACKAGE_ROOT, 'dist/web-locks.cjs');
    await writeFile(
      path.join(folder, 'run.mjs'),
      `import { createRequire } from 'node:module';
      const { locks } = createRequire(import.meta.url)(${JSON.stringify(entry)});
      Object.defineProperty(globalThis, 'navigator', { value: { locks } });
      const { lead } = await import('./program.mjs');
      await Promise.all(['a', 'b'].map((name) => lead(name, console.log, async () => undefined)));`,
    );
    const { code, stdout, stderr } = await runNode([path.join(folder, 'run.mjs')]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^a leads$[^]*^b leads$/m);
  } finally {
    await removeFolder(folder);
  }
});
