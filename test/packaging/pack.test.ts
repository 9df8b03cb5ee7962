import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

// The tarball that users get, installed as they do it: once with a compiler, once without.

const root = path.resolve(import.meta.dirname, '../..');
const windows = process.platform === 'win32';
// Two installs at a time, one of which compiles the addon, on a machine that may be busy with other tests.
const installLimit = 240_000;

interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

function run(command: string, args: string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Result> {
  return new Promise((resolve) => {
    // npm is a batch file on Windows, which only a shell can start.
    const options = { cwd, env, shell: windows && command === 'npm', maxBuffer: 64 * 1024 * 1024 };
    execFile(command, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

/** The environment of a user's shell: without what the npm or the build that started this test has set. */
async function usersEnvironment(): Promise<NodeJS.ProcessEnv> {
  const ours =
    /^(npm_(package|lifecycle|config_local_prefix|command|execpath)|STRIPELOCK_|INIT_CWD$|NODE_OPTIONS$|VITEST)/i;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  // Node's headers where this build found them, so that no install has to download them.
  const config = path.join(root, 'build', 'config.gypi');
  const nodedir = existsSync(config)
    ? /"nodedir": "([^"]+)"/.exec(await readFile(config, 'utf8'))?.[1]
    : undefined;
  if (nodedir !== undefined) env['npm_config_nodedir'] ??= nodedir;
  return env;
}

/** The same without compiler, make or Python: a PATH that holds node, npm and a shell, and nothing else. */
async function environmentWithoutCompiler(
  env: NodeJS.ProcessEnv,
  folder: string,
): Promise<NodeJS.ProcessEnv> {
  const hidden: NodeJS.ProcessEnv = {
    ...env,
    CC: 'false',
    CXX: 'false',
    npm_config_python: path.join(folder, 'no-python'),
  };
  if (windows) return { ...hidden, npm_config_msvs_version: '1999' };
  const bin = path.join(folder, 'bin');
  await mkdir(bin);
  await symlink(process.execPath, path.join(bin, 'node'));
  for (const tool of ['npm', 'sh']) {
    const places = (env['PATH'] ?? '').split(path.delimiter).map((place) => path.join(place, tool));
    const found = places.find((place) => existsSync(place));
    if (found === undefined) throw new Error(`${tool} is not on the PATH`);
    await symlink(realpathSync(found), path.join(bin, tool));
  }
  return { ...hidden, PATH: bin };
}

/** Packs a copy, so that neither another test nor a prebuilt binary in this folder can change what is installed. */
async function pack(folder: string, env: NodeJS.ProcessEnv): Promise<{ tarball: string; files: string[] }> {
  const stage = path.join(folder, 'stage');
  const left = new Set(['.git', 'build', 'coverage', 'node_modules', 'prebuilds']);
  await cp(root, stage, {
    recursive: true,
    filter: (source) => !left.has(path.relative(root, source)) && !source.endsWith('.tgz'),
  });
  // Without scripts, because dist/ is already built, and the copy has no TypeScript.
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { code, stdout, stderr } = await run('npm', args, stage, env);
  if (code !== 0) throw new Error(`npm pack failed: ${stderr}`);
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  return { tarball: path.join(folder, filename), files: files.map((file) => file.path) };
}

async function install(project: string, tarball: string, env: NodeJS.ProcessEnv): Promise<Result> {
  await mkdir(project);
  await writeFile(path.join(project, 'package.json'), '{ "name": "user", "private": true }\n');
  const args = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--foreground-scripts', tarball];
  return run('npm', args, project, env);
}

/** Locks in two threads, by import and by require, and reports the engine and the warnings. */
const program = `
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { StripedLock } = require('stripelock');
if (isMainThread) {
  const warnings = [];
  process.on('warning', ({ name, code }) => warnings.push({ name, code }));
  (async () => {
    const imported = await import('stripelock');
    const lock = new StripedLock({ stripes: 16 });
    const engines = [lock.engine, new imported.StripedLock().engine];
    const guard = await lock.acquire(['a', 'b']);
    const worker = new Worker(__filename, { workerData: lock.handle });
    const [whileHeld, again] = await new Promise((resolve, reject) => {
      const answers = [];
      worker.on('error', reject);
      worker.on('message', (answer) => {
        answers.push(answer);
        if (answers.length === 1) guard.release();
        if (answers.length === 2) resolve(answers);
      });
    });
    await new Promise(setImmediate);
    const same = imported.StripedLock === StripedLock;
    console.log(JSON.stringify({ engines, same, whileHeld, again, warnings }));
  })();
} else {
  const lock = StripedLock.from(workerData);
  new StripedLock();
  parentPort.postMessage(lock.tryAcquire('a') === undefined ? 'refused' : 'granted');
  lock.withLockSync(['b', 'a'], () => parentPort.postMessage('granted'));
}
`;

interface Report {
  engines: string[];
  same: boolean;
  whileHeld: string;
  again: string;
  warnings: { name: string; code?: string }[];
  /** How often the user sees the warning. */
  shown: number;
}

async function runProgram(project: string, env: NodeJS.ProcessEnv): Promise<Report> {
  await writeFile(path.join(project, 'main.cjs'), program);
  const { code, stdout, stderr } = await run(process.execPath, ['main.cjs'], project, env);
  if (code !== 0) throw new Error(`the program ended with ${String(code)}: ${stderr}`);
  const report = JSON.parse(stdout) as Omit<Report, 'shown'>;
  const warnings = report.warnings.filter(({ name }) => name === 'StripelockWarning');
  return { ...report, warnings, shown: stderr.split('STRIPELOCK_NO_ADDON').length - 1 };
}

const locksWork = { same: true, whileHeld: 'refused', again: 'granted' };
const silent = { warnings: [], shown: 0 };

let folder: string;
let env: NodeJS.ProcessEnv;
let hidden: NodeJS.ProcessEnv;
let packed: { tarball: string; files: string[] };
let withCompiler: string;
let withoutCompiler: string;
let installed: Result;
let installedHidden: Result;

beforeAll(async () => {
  folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), 'stripelock-pack-')));
  env = await usersEnvironment();
  hidden = await environmentWithoutCompiler(env, folder);
  packed = await pack(folder, env);
  withCompiler = path.join(folder, 'with-compiler');
  withoutCompiler = path.join(folder, 'without-compiler');
  [installed, installedHidden] = await Promise.all([
    install(withCompiler, packed.tarball, env),
    install(withoutCompiler, packed.tarball, hidden),
  ]);
}, installLimit);

afterAll(() => rm(folder, { recursive: true, force: true }));

const inPackage = (project: string, ...names: string[]): string =>
  path.join(project, 'node_modules', 'stripelock', ...names);

describe('the tarball', () => {
  it('contains all files that are used, compiled and read', () => {
    expect(packed.files).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'README.md',
        'binding.gyp',
        'dist/index.d.ts',
        'dist/index.js',
        'package.json',
        'scripts/install.mjs',
      ]),
    );
    expect(packed.files.some((file) => /^native\/core\/.*\.cc$/.test(file))).toBe(true);
    expect(packed.files.some((file) => /^native\/node\/.*\.cc$/.test(file))).toBe(true);
  });

  it('contains no tests, benchmarks or build results', () => {
    const unwanted = /^(\.|test\/|bench\/|build\/|examples\/|native\/test\/|node_modules\/)|\.tsbuildinfo$/;
    expect(packed.files.filter((file) => unwanted.test(file))).toEqual([]);
  });
});

describe('installed where a compiler exists', () => {
  it('compiles the addon, and locks natively by import and require, in every thread, without a warning', async () => {
    expect(installed.code, installed.stderr).toBe(0);
    expect(existsSync(inPackage(withCompiler, 'build', 'Release', 'stripelock.node')), installed.stderr).toBe(
      true,
    );
    expect(await runProgram(withCompiler, env)).toEqual({
      engines: ['native', 'native'],
      ...locksWork,
      ...silent,
    });
  });

  it('has types, for modules and for CommonJS', async () => {
    const use = `
      const lock = new StripedLock({ name: 'typed' });
      const exclusive: Guard<string, 'exclusive'> = lock.acquireSync('a');
      // @ts-expect-error a shared guard does not prove exclusive access
      const wrong: Guard<string, 'exclusive'> = lock.acquireSync('a', { mode: 'shared' });
      // @ts-expect-error there is no such option
      new StripedLock({ stripe: 3 });
      export const all = [exclusive, wrong];
    `;
    await writeFile(
      path.join(withCompiler, 'a.mts'),
      `import { StripedLock, type Guard } from 'stripelock';${use}`,
    );
    await writeFile(
      path.join(withCompiler, 'b.cts'),
      `import { StripedLock, type Guard } from 'stripelock';${use}`,
    );
    const require = createRequire(import.meta.url);
    const options = [
      [
        '--noEmit',
        '--strict',
        '--target',
        'es2022',
        '--module',
        'nodenext',
        '--lib',
        'es2023,esnext.disposable',
      ],
      ['--types', 'node', '--typeRoots', path.join(root, 'node_modules', '@types')],
    ].flat();
    const tsc = [require.resolve('typescript/bin/tsc'), ...options, 'a.mts', 'b.cts'];
    const { code, stdout } = await run(process.execPath, tsc, withCompiler, env);
    expect(stdout).toBe('');
    expect(code).toBe(0);
  });
});

describe('installed where no compiler exists', () => {
  it('installs, with one notice that names the reason and the remedy', () => {
    expect(installedHidden.code, installedHidden.stderr).toBe(0);
    const output = `${installedHidden.stdout}\n${installedHidden.stderr}`;
    const notices = output.split('\n').filter((line) => line.startsWith('stripelock:'));
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatch(/could not be compiled.*JavaScript engine.*npm rebuild stripelock/);
    expect(output).not.toMatch(/gyp ERR!/);
    expect(existsSync(inPackage(withoutCompiler, 'build'))).toBe(false);
  });

  it('runs on the JavaScript engine in every thread, and warns exactly once', async () => {
    expect(await runProgram(withoutCompiler, hidden)).toEqual({
      engines: ['javascript', 'javascript'],
      ...locksWork,
      warnings: [{ name: 'StripelockWarning', code: 'STRIPELOCK_NO_ADDON' }],
      shown: 1,
    });
  });

  it('uses a prebuilt binary if there is one, and then compiles nothing', async () => {
    const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
    const musl = process.platform === 'linux' && report.header.glibcVersionRuntime === undefined;
    const target = `${process.platform}-${process.arch}${musl ? '-musl' : ''}`;
    const prebuilt = inPackage(withoutCompiler, 'prebuilds', target);
    await mkdir(prebuilt, { recursive: true });
    await cp(
      inPackage(withCompiler, 'build', 'Release', 'stripelock.node'),
      path.join(prebuilt, 'stripelock.node'),
    );

    const rebuilt = await run(
      'npm',
      ['rebuild', 'stripelock', '--foreground-scripts'],
      withoutCompiler,
      hidden,
    );
    expect(rebuilt.code, rebuilt.stderr).toBe(0);
    expect(`${rebuilt.stdout}${rebuilt.stderr}`).not.toContain('stripelock: ');
    expect(existsSync(inPackage(withoutCompiler, 'build'))).toBe(false);
    expect(await runProgram(withoutCompiler, hidden)).toEqual({
      engines: ['native', 'native'],
      ...locksWork,
      ...silent,
    });
  });
});
