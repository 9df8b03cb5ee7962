import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADDON, entryOf, installIn, ROOT } from '../../support/installation.js';
import { runNode, runProgram } from '../../support/programs.js';

let folder: string;
/** A copy of the JavaScript, over the same addon. */
let copy: string;
/** The same, as another version. */
let other: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'stripelock-evaluations-'));
  copy = path.join(folder, 'copy');
  other = path.join(folder, 'other');
  for (const to of [copy, other]) await installIn(to, { linked: ['build'] });
  const engine = path.join(other, 'dist/engine/contract/engine.js');
  const text = await readFile(engine, 'utf8');
  const changed = text.replace(/ENGINE_PROTOCOL = \d+/, 'ENGINE_PROTOCOL = 999');
  expect(changed).not.toBe(text);
  await writeFile(engine, changed);
});

afterAll(() => rm(folder, { recursive: true, force: true }).catch(() => undefined));

describe('a second evaluation of the package in a thread', () => {
  const ways = [
    ['in other files', 'copy', []],
    ['that loads the addon again', 'reloaded', []],
    ['in a realm of its own', 'realm', ['--experimental-vm-modules', '--no-warnings']],
  ] as const;
  for (const [what, how, options] of ways) {
    for (const where of ['main', 'worker']) {
      it(`${what} finds the running engine, and both work as one (${where})`, async () => {
        const args = [where, how, copy];
        const { code, stdout, stderr } = await runProgram('two-evaluations.mjs', args, options);
        expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: 'both work as one\n' });
      });
    }
  }

  const quoted = (folder: string): string => JSON.stringify(entryOf(folder));
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
  /** Two locks are refused on account of the version; `rest` are the other lines. */
  async function expectRefused(script: string, rest: readonly string[]): Promise<void> {
    const { code, stdout, stderr } = await runNode(['--input-type=module', '-e', script]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const refused = expect.stringMatching(/^true ERR_LOCK_ENGINE [^\n]*version/) as string;
    expect(stdout.trim().split('\n')).toEqual([refused, refused, ...rest]);
  }

  it('of another version is refused with an error that says so, and may use the JavaScript engine', async () => {
    const script = `
      const first = await import(${quoted(ROOT)});
      const lock = new first.StripedLock();
      lock.acquireSync('key').release();
      const second = await import(${quoted(other)});
      ${refusals}
      console.log(lock.tryAcquire('key').held);
    `;
    await expectRefused(script, ['ERR_LOCK_ENGINE', 'ERR_LOCK_ENGINE', 'true', 'true']);
  });

  it('is refused in the same way after a version that does not announce itself', async () => {
    const script = `
      import { createRequire } from 'node:module';
      createRequire(import.meta.url)(${JSON.stringify(path.join(ROOT, ADDON))})
        .start(0, () => undefined);
      const second = await import(${quoted(ROOT)});
      const lock = undefined;
      ${refusals}
    `;
    await expectRefused(script, ['ERR_INVALID_ARG_TYPE', 'ERR_LOCK_ENGINE', 'true']);
  });
});
