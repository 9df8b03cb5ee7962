import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { hasTools, toolPath, TOOLS_ADVICE } from '../../scripts/large-tools.mjs';
import { runNode } from '../support/programs.js';
import { reportMissing } from '../support/requirements.js';
import { root, textOf } from './pages.js';

// The files of docs/testing.md, as they stand, under both test runners, in a project that has the package installed.

/** Milliseconds: the start of a test runner beside other tests. */
const LIMIT = 120_000;

const files = codeIn(textOf('docs/testing.md'), 'js', 'ts').map(({ code }) => ({
  name: /^\/\/ ([\w.-]+)\n/.exec(code)![1]!,
  code,
}));
const inModules = (name: string): string => path.join(root, 'node_modules', name);
const runners = [
  {
    name: 'vitest',
    packages: ['vitest'],
    placeOf: inModules,
    program: 'vitest/vitest.mjs',
    args: ['run', '.test.ts'],
    ending: '.test.ts',
    passed: /Tests +(\d+) passed/,
  },
  {
    name: 'jest',
    packages: ['jest', '@jest/globals'],
    placeOf: toolPath,
    program: 'jest/bin/jest.js',
    args: ['--rootDir', '.'],
    ending: '.test.cjs',
    passed: /Tests: +(\d+) passed/,
  },
];

const present = hasTools ? runners : runners.filter(({ name }) => name !== 'jest');
if (!hasTools) reportMissing('docs/testing.md in jest', 'package jest', TOOLS_ADVICE);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-testing-'));
  mkdirSync(path.join(folder, 'node_modules/@jest'), { recursive: true });
  symlinkSync(root, path.join(folder, 'node_modules/stripelock'), 'junction');
  for (const { packages, placeOf } of present) {
    for (const name of packages) {
      symlinkSync(placeOf(name), path.join(folder, 'node_modules', name), 'junction');
    }
  }
  const jest = { testMatch: ['**/*.test.cjs'], transform: {} };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ jest }));
  for (const { name, code } of files) writeFileSync(path.join(folder, name), code);
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('the files of docs/testing.md', () => {
  it.each(present)(
    'pass in $name',
    async ({ program, placeOf, args, ending, passed }) => {
      const count = files.filter(({ name }) => name.endsWith(ending)).length;
      expect(count).toBeGreaterThan(0);
      const environment = { NO_COLOR: '1', FORCE_COLOR: undefined, VITEST: undefined };
      const { code, stdout, stderr } = await runNode([placeOf(program), ...args], LIMIT, environment, folder);
      expect(code, stdout + stderr).toBe(0);
      expect(passed.exec(stdout + stderr)?.[1], stdout + stderr).toBe(String(count));
    },
    LIMIT,
  );

  it('are all run by one of the test runners', () => {
    const endings = runners.map(({ ending }) => ending);
    expect(files.filter(({ name }) => !endings.some((ending) => name.endsWith(ending)))).toEqual([]);
  });
});
