import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

// What `npm run build:ts` leaves in dist/, in a copy of the package: other tests use the dist/ here meanwhile.

const root = path.resolve(import.meta.dirname, '../..');
/** Milliseconds for a compilation or a pack, on a machine that is busy with other tests. */
const LIMIT = 120_000;
const run = promisify(execFile);

let folder: string;
const inFolder = (name: string): string => path.join(folder, name);
const npm = (...args: string[]): Promise<{ stdout: string }> =>
  run('npm', args, { cwd: folder, shell: process.platform === 'win32' });
const build = (): Promise<unknown> => npm('run', 'build:ts');

beforeAll(async () => {
  folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), 'stripelock-build-')));
  for (const name of ['package.json', 'tsconfig.json', 'lib', 'scripts']) {
    await cp(path.join(root, name), inFolder(name), { recursive: true });
  }
  await symlink(path.join(root, 'node_modules'), inFolder('node_modules'), 'junction');
  await build();
}, LIMIT);

afterAll(() => rm(folder, { recursive: true, force: true }));

it(
  'a module that was deleted in lib/ is gone from dist/ after a build, and is not packed',
  async () => {
    const stale = ['dist/stale.js', 'dist/stale.d.ts', 'dist/gone/stale.js', 'dist/lock/stale.js.map'];
    await mkdir(inFolder('dist/gone'));
    for (const name of stale) await writeFile(inFolder(name), '');
    await build();
    expect([...stale, 'dist/gone'].filter((name) => existsSync(inFolder(name)))).toEqual([]);

    const { stdout } = await npm('pack', '--dry-run', '--json', '--ignore-scripts');
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    const packed = files.map((file) => file.path);
    expect(packed).toContain('dist/index.js');
    expect(packed.filter((name) => name.includes('stale'))).toEqual([]);
  },
  LIMIT,
);

it(
  'a build replaces what has changed and leaves alone what has not, which others may be reading',
  async () => {
    const before = await stat(inFolder('dist/index.js'));
    const redis = await readFile(inFolder('dist/redis.js'), 'utf8');
    await writeFile(inFolder('dist/redis.js'), 'changed');
    await rm(inFolder('dist/sqlite.js'));
    await build();
    const { ino, mtimeMs } = await stat(inFolder('dist/index.js'));
    expect({ ino, mtimeMs }).toEqual({ ino: before.ino, mtimeMs: before.mtimeMs });
    expect(await readFile(inFolder('dist/redis.js'), 'utf8')).toBe(redis);
    expect(existsSync(inFolder('dist/sqlite.js'))).toBe(true);
  },
  LIMIT,
);

it(
  'a build that fails says where, and leaves dist/ as it was',
  async () => {
    const before = await readFile(inFolder('dist/index.js'), 'utf8');
    await writeFile(inFolder('lib/wrong.ts'), "export const wrong: number = 'text';\n");
    await expect(build()).rejects.toMatchObject({
      stdout: expect.stringMatching(/lib\/wrong\.ts.*TS2322/) as string,
    });
    expect(existsSync(inFolder('dist/wrong.js'))).toBe(false);
    expect(await readFile(inFolder('dist/index.js'), 'utf8')).toBe(before);
  },
  LIMIT,
);
