import { describe, expect, it } from 'vitest';
import { copyForTest, PACKAGE_ROOT } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';

describe('the memory store under node:test', () => {
  it.each(['with-addon', 'without-addon'])('keeps the contract %s', async (kind) => {
    const installation = kind === 'with-addon' ? PACKAGE_ROOT : await copyForTest();
    const { code, stdout, stderr } = await runProgram('lease-contract.mjs', [installation, kind]);
    expect(code, stdout + stderr).toBe(0);
    expect(stdout).toMatch(/^(#|ℹ) pass 139$/m);
    expect(stdout).toMatch(/^(#|ℹ) fail 0$/m);
    expect(stderr.includes('STRIPELOCK_NO_ADDON')).toBe(kind === 'without-addon');
  });
});
