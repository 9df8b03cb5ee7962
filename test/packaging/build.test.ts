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
    const kept = [inFolder('dist/index.cjs'), inFolder('unbundled/index.js')];
    const changed = [inFolder('dist/redis.cjs'), inFolder('unbundled/redis.js')];
    const gone = [inFolder('dist/sqlite.cjs'), inFolder('unbundled/sqlite.js')];
    const look = (): Promise<object[]> =>
      Promise.all(
        kept.map(async (file) => {
          const { ino, mtimeMs } = await stat(file);
          return { ino, mtimeMs };
        }),
      );
    const read = (): Promise<string[]> => Promise.all(changed.map((file) => readFile(file, 'utf8')));
    const [before, texts] = [await look(), await read()];
    for (const file of changed) await writeFile(file, 'changed');
    for (const file of gone) await rm(file);
    await build();
    expect(await look()).toEqual(before);
    expect(await read()).toEqual(texts);
    expect(gone.map((file) => existsSync(file))).toEqual([true, true]);
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
