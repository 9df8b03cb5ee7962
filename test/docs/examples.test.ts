import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runNode } from '../support/programs.js';
import { programsIn, root, textOf, withoutTypes } from './pages.js';

// The examples of the README and of some pages, as they stand, in a project that has the package installed.

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-examples-'));
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(root, path.join(folder, 'node_modules/stripelock'), 'junction');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** What an example says that it prints: the comments behind its calls of `console.log`. */
const printed = (code: string): string[] =>
  [...code.matchAll(/console\.log\(.*; \/\/ (.+)$/gm)].map(([, text]) => text!);

const isCommonJs = (code: string): boolean => code.includes('require(');

async function runs(code: string, name: string): Promise<void> {
  const file = path.join(folder, `${name}.${isCommonJs(code) ? 'cjs' : 'mjs'}`);
  writeFileSync(file, code);
  const expected = printed(code);
  expect(expected.length).toBeGreaterThan(0);
  const { code: exitCode, stdout, stderr } = await runNode([file], undefined, {}, folder);
  expect({ exitCode, stdout, stderr }).toEqual({
    exitCode: 0,
    stdout: `${expected.join('\n')}\n`,
    stderr: '',
  });
}

describe('the examples of the README', () => {
  const examples = programsIn('README.md');

  it('are for ESM and for CommonJS', () => {
    expect(examples.map(isCommonJs)).toEqual(expect.arrayContaining([false, true]));
  });

  it.each(examples.map((code, i) => [i + 1, code] as const))('number %i prints what it says', (i, code) =>
    runs(code, `readme-${i}`),
  );
});

describe.each(['guide', 'troubleshooting', 'migrating', 'web-locks', 'errors', 'processes'])(
  'the example of docs/%s.md',
  (page) => {
    const examples = programsIn(`docs/${page}.md`);

    it.each(examples.map((code, i) => [i + 1, code] as const))('number %i prints what it says', (i, code) =>
      runs(code, `${page}-${i}`),
    );
  },
);

describe('the examples of docs/usage.md', () => {
  const inPool = (code: string): boolean => code.includes("from 'piscina'");
  const examples = programsIn('docs/usage.md');

  it('are in part those of examples/pool', () => {
    const files = ['pool.mjs', 'worker.mjs'].map((name) => textOf(`examples/pool/${name}`));
    expect(examples.filter(inPool).map(withoutTypes)).toEqual(files.map(withoutTypes));
  });

  it.each(examples.filter((code) => !inPool(code)).map((code, i) => [i + 1, code] as const))(
    'number %i prints what it says',
    (i, code) => runs(code, `usage-${i}`),
  );
});
