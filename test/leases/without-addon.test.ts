import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

const ROOT = path.resolve(import.meta.dirname, '../..');

describe('the memory store under node:test', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'stripelock-leases-'));
    for (const part of ['package.json', 'dist']) {
      await cp(path.join(ROOT, part), path.join(folder, part), { recursive: true });
    }
    await symlink(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'), 'junction');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each(['with-addon', 'without-addon'])('keeps the contract %s', async (kind) => {
    const installation = kind === 'with-addon' ? ROOT : folder;
    const { code, stdout, stderr } = await runProgram('lease-contract.mjs', [installation, kind]);
    expect(code, stdout + stderr).toBe(0);
    expect(stdout).toMatch(/^(#|ℹ) pass 35$/m);
    expect(stdout).toMatch(/^(#|ℹ) fail 0$/m);
    expect(stderr.includes('STRIPELOCK_NO_ADDON')).toBe(kind === 'without-addon');
  });
});
