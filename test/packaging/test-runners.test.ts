import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toolPath } from '../../scripts/large-tools.mjs';
import { PACKAGE_ROOT } from '../support/package-copy.js';
import * as installed from './installed.js';

// The tarball under test runners, which evaluate it once for each test file in one thread, and again on request.

// An install, and a start of a test runner, on a machine that may be busy with other tests.
const LIMIT = 240_000;

let folder: string;
let env: NodeJS.ProcessEnv;
let project: string;

const inModules = (name: string): string => path.join(PACKAGE_ROOT, 'node_modules', name);

/** The body of a test: everything runs natively, also after a second evaluation, which finds the running engine. */
const body = (again: string, evaluations: 'one' | 'two'): string => `
  const lock = new StripedLock();
  expect(lock.engine).toBe('native');
  const lease = await new LeaseManager().acquire('key');
  const second = ${again};
  expect(second.StripedLock === StripedLock).toBe(${String(evaluations === 'one')});
  const other = second.StripedLock.from(lock.handle);
  expect(other.engine).toBe('native');
  const guard = lock.acquireSync('key');
  expect(other.tryAcquire('key')).toBe(undefined);
  // Both are one thread, which would wait for itself.
  expect(() => other.acquireSync('key')).toThrow(second.DeadlockError);
  const waiting = other.acquire('key');
  guard.release();
  (await waiting).release();
  await lease.release();
`;

beforeAll(async () => {
  ({ folder, project, env } = await installed.newProject('runners'));
}, LIMIT);

afterAll(() => rm(folder, { recursive: true, force: true }));

async function runs(program: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<string> {
  const { code, stdout, stderr } = await installed.run(process.execPath, [program, ...args], project, {
    ...env,
    ...more,
  });
  expect(code, stdout + stderr).toBe(0);
  return stdout + stderr;
}

describe('jest', () => {
  const required = `
    const { LeaseManager, StripedLock } = require('stripelock');
    test('locks', async () => {
      ${body("(jest.resetModules(), require('stripelock'))", 'two')}
    });
  `;
  const imported = `
    import { jest } from '@jest/globals';
    import { LeaseManager, StripedLock } from 'stripelock';
    test('locks', async () => {
      ${body("(jest.resetModules(), await import('stripelock'))", 'two')}
    });
  `;
  const options = ['--rootDir', '.', '--config', '{ "transform": {} }'];

  beforeAll(async () => {
    await mkdir(path.join(project, 'jest'));
    for (const name of ['first', 'second']) {
      await writeFile(path.join(project, 'jest', `${name}.test.js`), required);
      await writeFile(path.join(project, 'jest', `${name}.test.mjs`), imported);
    }
  });

  it.each([
    ['in one process', ['--runInBand']],
    ['in worker threads', ['--maxWorkers', '2', '--workerThreads']],
  ])(
    'requires it, and locks natively in the second test file as in the first, without a warning (%s)',
    async (_where, more) => {
      const output = await runs(toolPath('jest/bin/jest.js'), [
        ...options,
        ...more,
        'first.test.js',
        'second.test.js',
      ]);
      expect(output).toContain('Tests:       2 passed, 2 total');
      expect(output).not.toContain('STRIPELOCK');
    },
    LIMIT,
  );

  it(
    'imports it in the same way, where it runs modules',
    async () => {
      const more = ['--runInBand', '--testMatch', '**/*.test.mjs'];
      const output = await runs(toolPath('jest/bin/jest.js'), [...options, ...more], {
        NODE_OPTIONS: '--experimental-vm-modules',
      });
      expect(output).toContain('Tests:       2 passed, 2 total');
      expect(output).not.toContain('STRIPELOCK');
    },
    LIMIT,
  );
});

describe('vitest', () => {
  const tests = (evaluations: 'one' | 'two'): string => `
    import { expect, it, vi } from 'vitest';
    import { LeaseManager, StripedLock } from 'stripelock';
    it('locks', async () => {
      ${body("(vi.resetModules(), await import('stripelock'))", evaluations)}
    });
  `;

  beforeAll(async () => {
    await symlink(inModules('vitest'), path.join(project, 'node_modules/vitest'), 'junction');
    for (const evaluations of ['one', 'two'] as const) {
      const place = path.join(project, `vitest-${evaluations}`);
      await mkdir(place);
      for (const name of ['first', 'second']) {
        await writeFile(path.join(place, `${name}.test.mjs`), tests(evaluations));
      }
    }
    // So vite itself evaluates the package, as the module that is for bundlers.
    const config = `export default {
      ssr: { resolve: { conditions: ['module', 'node'] } },
      test: { include: ['vitest-two/*.test.mjs'], isolate: false, server: { deps: { inline: [/stripelock/] } } },
    };`;
    await writeFile(path.join(project, 'inlined.config.mjs'), config);
  });

  it.each(['forks', 'threads', 'vmThreads'])(
    'imports it, and locks natively in every test file and after vi.resetModules(), without a warning (%s)',
    async (pool) => {
      const args = ['run', '--pool', pool, '--no-isolate', '--maxWorkers', '1', 'vitest-one'];
      const output = await runs(inModules('vitest/vitest.mjs'), args, { NO_COLOR: '1' });
      expect(output).toMatch(/Tests {2}2 passed/);
      expect(output).not.toContain('STRIPELOCK');
    },
    LIMIT,
  );

  it(
    'evaluates it again after vi.resetModules() where it must transform it, and finds the running engine',
    async () => {
      const args = ['run', '--config', 'inlined.config.mjs', '--maxWorkers', '1'];
      const output = await runs(inModules('vitest/vitest.mjs'), args, { NO_COLOR: '1' });
      expect(output).toMatch(/Tests {2}2 passed/);
      expect(output).not.toContain('STRIPELOCK');
    },
    LIMIT,
  );
});
