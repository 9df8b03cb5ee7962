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
  symlinkSync(path.join(root, 'node_modules/piscina'), path.join(folder, 'node_modules/piscina'), 'junction');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The expected output of an example: the comments behind its calls of `console.log`. */
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
  const [handler, ...examples] = programsIn('README.md');

  it('serve the requests of one user one after the other', async () => {
    const server = `
      let handle, running = 0, most = 0;
      const app = { post: (_path, handler) => (handle = handler) };
      const withdraw = async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 1));
        running--;
        return 7;
      };`;
    const requests = (...users: string[]): string => `
      await Promise.all(${JSON.stringify(users)}.map((id) => handle({ params: { id } }, { json: console.log })));
      console.log(most);`;
    const answers = '{ balance: 7 }\n{ balance: 7 }\n';
    for (const [second, most] of [
      ['ada', 1],
      ['bob', 2],
    ] as const) {
      const file = path.join(folder, `readme-handler-${second}.mjs`);
      writeFileSync(file, server + handler! + requests('ada', second));
      const { stdout, stderr } = await runNode([file], undefined, {}, folder);
      expect({ stdout, stderr }).toEqual({ stdout: `${answers}${most}\n`, stderr: '' });
    }
  });

  it.each(examples.map((code, i) => [i + 1, code] as const))('number %i prints what it says', (i, code) =>
    runs(code, `readme-${i}`),
  );
});

describe.each(['guide', 'troubleshooting', 'migrating', 'web-locks', 'errors', 'processes', 'locked-file'])(
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

  it('are for ESM and for CommonJS', () => {
    expect(examples.map(isCommonJs)).toEqual(expect.arrayContaining([false, true]));
  });

  it('include the files of examples/pool', () => {
    const files = ['pool.mjs', 'worker.mjs'].map((name) => textOf(`examples/pool/${name}`));
    expect(examples.filter(inPool).map(withoutTypes)).toEqual(files.map(withoutTypes));
  });

  it.each(examples.filter((code) => !inPool(code)).map((code, i) => [i + 1, code] as const))(
    'number %i prints what it says',
    (i, code) => runs(code, `usage-${i}`),
  );
});
