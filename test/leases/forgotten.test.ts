import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

const each = it.each(['loop', 'thread']);
each(
  'a forgotten lease is not renewed any more by the %s, with one warning that names its key',
  async (by) => {
    const { code, stdout } = await runProgram('forgotten-leases.mjs', [by], ['--expose-gc', '--no-warnings']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      kept: true,
      shared: true,
      reason: 'ERR_LEASE_LOST',
      warnings: ['STRIPELOCK_LEASE_FORGOTTEN', 'STRIPELOCK_LEASE_FORGOTTEN'],
      keys: ['forgotten', 'signal'],
    });
  },
  60_000,
);
