import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { runNode } from '../support/programs.js';
import { root, textOf } from './pages.js';

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
const javaScriptOf = (page: string): string[] => codeIn(textOf(page), 'js').map(({ code }) => code);

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
  const examples = javaScriptOf('README.md');

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
    const examples = javaScriptOf(`docs/${page}.md`);

    it.each(examples.map((code, i) => [i + 1, code] as const))('number %i prints what it says', (i, code) =>
      runs(code, `${page}-${i}`),
    );
  },
);

describe('the examples of docs/usage.md', () => {
  const pool = ['pool.mjs', 'worker.mjs'].map((name) => textOf(`examples/pool/${name}`).trim());
  const examples = javaScriptOf('docs/usage.md');

  it('are in part those of examples/pool', () => {
    expect(examples).toEqual(expect.arrayContaining(pool));
  });

  it.each(examples.filter((code) => !pool.includes(code)).map((code, i) => [i + 1, code] as const))(
    'number %i prints what it says',
    (i, code) => runs(code, `usage-${i}`),
  );
});
