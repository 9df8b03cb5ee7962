// The published package, installed as users do it.
import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { packLocally } from '../../scripts/local-package.mjs';
import { platformName } from '../../unbundled/engine/native/platform.js';
import { PACKAGE_ROOT } from '../support/package-copy.js';

const windows = process.platform === 'win32';

/** The binary of this machine in a package. */
export const PREBUILT = `prebuilds/${platformName()}/stripelock.node`;

export interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

export function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
): Promise<Result> {
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
export async function usersEnvironment(): Promise<NodeJS.ProcessEnv> {
  const ours =
    /^(npm_(package|lifecycle|config_local_prefix|command|execpath)|STRIPELOCK_|INIT_CWD$|NODE_(OPTIONS|ENV)$|VITEST|CI$)/i;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
  // Node's headers where this build found them, so that nothing has to download them.
  const config = path.join(PACKAGE_ROOT, 'build', 'config.gypi');
  const nodedir = existsSync(config)
    ? /"nodedir": "([^"]+)"/.exec(await readFile(config, 'utf8'))?.[1]
    : undefined;
  if (nodedir !== undefined) env['npm_config_nodedir'] ??= nodedir;
  return env;
}

/** The same without compiler, make or Python: a PATH that holds node, npm and a shell, and nothing else. */
export async function environmentWithoutCompiler(
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

/** A new project that has the tarball as its only dependency. */
export async function install(project: string, tarball: string, env: NodeJS.ProcessEnv): Promise<Result> {
  await mkdir(project);
  await writeFile(path.join(project, 'package.json'), '{ "name": "user", "private": true }\n');
  const args = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--foreground-scripts', tarball];
  return run('npm', args, project, env);
}

/** A path in the installed package. */
export const inPackage = (project: string, ...names: string[]): string =>
  path.join(project, 'node_modules', 'stripelock', ...names);

/** Locks in two threads, by import and by require, and reports the engine and the warnings. */
const program = `
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { StripedLock } = require('stripelock');
if (isMainThread) {
  const warnings = [];
  process.on('warning', ({ name, code, message }) => warnings.push({ name, code, message }));
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
    const entries = Object.keys(require('stripelock/package.json').exports);
    const names = entries.filter((name) => name !== './package.json').map((name) => 'stripelock' + name.slice(1));
    const same = await Promise.all(names.map(async (name) => {
      const [byRequire, byImport] = [require(name), await import(name)];
      const exported = Object.keys(byRequire);
      return exported.length > 0 && exported.every((key) => byRequire[key] === byImport[key]);
    }));
    console.log(JSON.stringify({ engines, same: same.every(Boolean), whileHeld, again, warnings }));
  })();
} else {
  const lock = StripedLock.from(workerData);
  new StripedLock();
  parentPort.postMessage(lock.tryAcquire('a') === undefined ? 'refused' : 'granted');
  lock.withLockSync(['b', 'a'], () => parentPort.postMessage('granted'));
}
`;

export interface Report {
  engines: string[];
  /** Whether everything that `require` gives is what `import` gives. */
  same: boolean;
  whileHeld: string;
  again: string;
  /** Those of this package. */
  warnings: { name: string; code?: string; message: string }[];
  /** How often the user sees the warning. */
  shown: number;
}

/** The report of a program that uses all entry points and locks in two threads. */
export async function runUsersProgram(
  project: string,
  env: NodeJS.ProcessEnv,
  nodeOptions: readonly string[] = [],
): Promise<Report> {
  await writeFile(path.join(project, 'main.cjs'), program);
  const { code, stdout, stderr } = await run(process.execPath, [...nodeOptions, 'main.cjs'], project, env);
  if (code !== 0) throw new Error(`the program ended with ${String(code)}: ${stderr}`);
  const report = JSON.parse(stdout) as Omit<Report, 'shown'>;
  const warnings = report.warnings.filter(({ name }) => name === 'StripelockWarning');
  return { ...report, warnings, shown: stderr.split('STRIPELOCK_NO_ADDON').length - 1 };
}

/** A report without a fault or a warning. */
export const works = (engine: string): Report => ({
  engines: [engine, engine],
  same: true,
  whileHeld: 'refused',
  again: 'granted',
  warnings: [],
  shown: 0,
});

/** A project in a separate folder, which the caller removes, with what is built here packed and installed in it. */
export async function newProject(
  name: string,
): Promise<{ folder: string; project: string; env: NodeJS.ProcessEnv }> {
  const folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), `stripelock-${name}-`)));
  const project = path.join(folder, 'project');
  const env = await usersEnvironment();
  const { code, stderr } = await install(project, packLocally(path.join(folder, 'packed')).tarball, env);
  expect(code, stderr).toBe(0);
  return { folder, project, env };
}
