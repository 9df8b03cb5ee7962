import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADDON, copyPackage, makeFolder, PACKAGE_ROOT, removeFolder } from '../../support/package-copy.js';
import { runNode, runProgram } from '../../support/programs.js';

let folder: string;
/** The same JavaScript in other files, with the same addon. */
let copy: string;
/** The same, of another version. */
let other: string;

beforeAll(async () => {
  folder = await makeFolder();
  copy = await copyPackage(path.join(folder, 'copy'), { addon: 'link' });
  other = await copyPackage(path.join(folder, 'other'), {
    addon: 'link',
    changes: {
      '../addon.cjs': (text) => text.replace(/protocol = \d+/, 'protocol = 999'),
      'engine/contract/engine.js': (text) => text.replace(/ENGINE_PROTOCOL = \d+/, 'ENGINE_PROTOCOL = 999'),
    },
  });
});

afterAll(() => removeFolder(folder));

describe('a second evaluation of the package in a thread', () => {
  const ways = [
    ['in other files', 'copy'],
    ['that loads the addon again', 'reloaded'],
  ] as const;
  for (const [what, how] of ways) {
    for (const where of ['main', 'worker']) {
      it(`${what} finds the running engine, and both work as one (${where})`, async () => {
        const args = [where, how, copy];
        const { code, stdout, stderr } = await runProgram('two-evaluations.mjs', args);
        expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: 'both work as one\n' });
      });
    }
  }

  const entryOf = (root: string): string => JSON.stringify(pathToFileURL(`${root}/dist/index.mjs`).href);
  const refusals = `
    for (const options of [undefined, { engine: 'native' }]) {
      try {
        console.log(new second.StripedLock(options).engine);
      } catch (error) {
        console.log(error instanceof second.LockError, error.code, error.message);
      }
    }
    try {
      second.StripedLock.from(lock?.handle ?? {});
    } catch (error) {
      console.log(error.code);
    }
    try {
      new second.MemoryLeaseStore();
    } catch (error) {
      console.log(error.code);
    }
    console.log(new second.StripedLock({ engine: 'javascript' }).tryAcquire('key').held);
  `;
  const refused = /^true ERR_LOCK_ENGINE [^\n]*version/;

  it('of another version is refused with an error that says so, and may use the JavaScript engine', async () => {
    const script = `
      const first = await import(${entryOf(PACKAGE_ROOT)});
      const lock = new first.StripedLock();
      lock.acquireSync('key').release();
      const second = await import(${entryOf(other)});
      ${refusals}
      console.log(lock.tryAcquire('key').held);
    `;
    const { code, stdout, stderr } = await runNode(['--input-type=module', '-e', script]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.trim().split('\n');
    expect(lines).toEqual([
      expect.stringMatching(refused),
      expect.stringMatching(refused),
      'ERR_LOCK_ENGINE',
      'ERR_LOCK_ENGINE',
      'true',
      'true',
    ]);
  });

  it('is refused in the same way after a version that leaves nothing for others', async () => {
    const script = `
      import { createRequire } from 'node:module';
      createRequire(import.meta.url)(${JSON.stringify(path.join(PACKAGE_ROOT, ADDON))})
        .start(0, () => undefined);
      const second = await import(${entryOf(PACKAGE_ROOT)});
      const lock = undefined;
      ${refusals}
    `;
    const { code, stdout, stderr } = await runNode(['--input-type=module', '-e', script]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.trim().split('\n');
    expect(lines).toEqual([
      expect.stringMatching(refused),
      expect.stringMatching(refused),
      'ERR_INVALID_ARG_TYPE',
      'ERR_LOCK_ENGINE',
      'true',
    ]);
  });
});
