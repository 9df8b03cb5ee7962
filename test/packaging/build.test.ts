import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

// What `npm run build:ts` leaves in dist/ and unbundled/, in a copy of the package: other tests use those here meanwhile.

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

it('a build costs next to nothing where nothing has changed', async () => {
  const count = "process.on('exit', () => console.log(process.cpuUsage().user / 1e6))";
  const args = ['--import', `data:text/javascript,${encodeURIComponent(count)}`, 'scripts/build-ts.mjs'];
  const { stdout } = await run(process.execPath, args, { cwd: folder });
  // Seconds of processor time, whatever else the machine does: to load the compiler alone takes most of one.
  expect(Number(stdout)).toBeLessThan(0.5);
});

it(
  'a module that was deleted in lib/ is gone after a build',
  async () => {
    const stale = [
      'dist/stale.cjs',
      'dist/gone/stale.cjs',
      'unbundled/stale.js',
      'unbundled/lock/stale.js.map',
    ];
    await mkdir(inFolder('dist/gone'));
    for (const name of stale) await writeFile(inFolder(name), '');
    await build();
    expect([...stale, 'dist/gone'].filter((name) => existsSync(inFolder(name)))).toEqual([]);
    expect(existsSync(inFolder('dist/index.cjs'))).toBe(true);
  },
  LIMIT,
);

it(
  'a build replaces what has changed and leaves alone what has not, which others may be reading',
  async () => {
    for (const [folder, extension] of [
      ['dist', 'cjs'],
      ['unbundled', 'js'],
    ] as const) {
      const file = (name: string): string => inFolder(`${folder}/${name}.${extension}`);
      const before = await stat(file('index'));
      const redis = await readFile(file('redis'), 'utf8');
      await writeFile(file('redis'), 'changed');
      await rm(file('sqlite'));
      await build();
      const { ino, mtimeMs } = await stat(file('index'));
      expect({ ino, mtimeMs }).toEqual({ ino: before.ino, mtimeMs: before.mtimeMs });
      expect(await readFile(file('redis'), 'utf8')).toBe(redis);
      expect(existsSync(file('sqlite'))).toBe(true);
    }
  },
  LIMIT,
);

it(
  'a build that fails says where, and leaves dist/ as it was',
  async () => {
    const before = await readFile(inFolder('dist/stripelock.cjs'), 'utf8');
    await writeFile(inFolder('lib/wrong.ts'), "export const wrong: number = 'text';\n");
    await expect(build()).rejects.toMatchObject({
      stdout: expect.stringMatching(/lib\/wrong\.ts.*TS2322/) as string,
    });
    expect(existsSync(inFolder('unbundled/wrong.js'))).toBe(false);
    expect(await readFile(inFolder('dist/stripelock.cjs'), 'utf8')).toBe(before);
  },
  LIMIT,
);
