import { execFile } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packLocally } from '../../scripts/local-package.mjs';
import { PACKAGE_ROOT } from '../support/package-copy.js';

// That `npm run test:install` fails where it should. The script itself runs in CI.

// Two installs by npm, and the first time a download of npm itself, on a machine that may be busy with other tests.
const LIMIT = 240_000;

let folder: string;

beforeAll(async () => {
  folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), 'stripelock-install-test-')));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

function testInstall(tarball: string): Promise<{ code: number | null; output: string }> {
  const script = path.join(PACKAGE_ROOT, 'scripts', 'test-install', 'main.mjs');
  const args = [script, '--manager', 'npm 12', '--use', 'ESM', '--tarball', tarball];
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, output: stdout + stderr });
    });
  });
}

it(
  'passes with a tarball that has the binary of this machine',
  async () => {
    const { tarball } = packLocally(path.join(folder, 'whole'));
    const { code, output } = await testInstall(tarball);
    expect(output).toMatch(/native +npm 12 +ESM/);
    expect(code).toBe(0);
  },
  LIMIT,
);

it(
  'fails with one that has none, and prints the package’s warning',
  async () => {
    const { tarball } = packLocally(path.join(folder, 'bare'), { binary: false });
    const { code, output } = await testInstall(tarball);
    expect(output).toMatch(/WRONG +npm 12 +ESM/);
    expect(output).toMatch(/STRIPELOCK_NO_ADDON/);
    expect(code).toBe(1);
  },
  LIMIT,
);
