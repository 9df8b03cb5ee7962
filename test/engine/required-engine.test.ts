import { describe, expect, it } from 'vitest';
import { copyForTest, PACKAGE_ROOT } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';

/** The lines of a program that chooses engines under this value of `STRIPELOCK_ENGINE`. */
async function chosen(
  addon: boolean,
  value: string,
  ...args: string[]
): Promise<{ lines: string[]; stderr: string }> {
  const installation = addon ? PACKAGE_ROOT : await copyForTest();
  const environment = { STRIPELOCK_ENGINE: value };
  const run = await runProgram(
    'chosen-engine.mjs',
    [installation, ...args],
    undefined,
    undefined,
    environment,
  );
  expect(run.code, run.stderr).toBe(0);
  return { lines: run.stdout.trim().split('\n'), stderr: run.stderr };
}

const native = [
  'StripedLock: native',
  'KeyedLock: native',
  'KeyedLock, asked for JavaScript: javascript',
  'MemoryLeaseStore: MemoryLeaseStore',
  'LockManager: LockManager',
];
const javascript = native.map((line) => line.replace('native', 'javascript'));

/** Refused with this message, except for the lock that asks for its engine itself. */
const refused = (message: string): string[] =>
  native.map((line) => {
    const [name] = line.split(':');
    return name!.includes('JavaScript') ? line : `${name}: LockError ERR_LOCK_ENGINE: ${message}`;
  });

describe('STRIPELOCK_ENGINE=native', () => {
  it('changes nothing if the addon loads', async () => {
    expect(await chosen(true, 'native')).toEqual({ lines: native, stderr: '' });
  });

  it('refuses what would fall back to JavaScript, and does not warn', async () => {
    const message =
      'the native addon could not be loaded, and STRIPELOCK_ENGINE=native forbids the JavaScript engine instead.';
    expect(await chosen(false, 'native')).toEqual({ lines: refused(message), stderr: '' });
  });

  it('is ignored where the program may not read its environment, as in Deno without --allow-env', async () => {
    expect((await chosen(true, 'native', 'without-env')).lines).toEqual(native);
    const { lines, stderr } = await chosen(false, 'native', 'without-env');
    expect({ lines, warned: stderr.includes('STRIPELOCK_NO_ADDON') }).toEqual({
      lines: javascript,
      warned: true,
    });
  });
});

describe('STRIPELOCK_ENGINE', () => {
  it('falls back with a warning if it is empty', async () => {
    const { lines, stderr } = await chosen(false, '');
    expect({ lines, warned: stderr.includes('STRIPELOCK_NO_ADDON') }).toEqual({
      lines: javascript,
      warned: true,
    });
  });

  it.each(['Native', 'javascript'])(
    'refuses the unknown value %s, with or without the addon',
    async (value) => {
      const lines = refused(`STRIPELOCK_ENGINE must be native or empty, and is "${value}"`);
      for (const addon of [true, false]) expect(await chosen(addon, value)).toEqual({ lines, stderr: '' });
    },
  );
});
