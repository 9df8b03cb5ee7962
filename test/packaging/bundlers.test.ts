import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadTool } from '../../scripts/large-tools.mjs';
import { installLocally, packLocally } from '../../scripts/local-package.mjs';
import { runNode } from '../support/programs.js';
import { bundlers } from './bundle-with.js';

// A program without workers, bundled with what ships, and run where the package is installed, and where it is not.

const PROGRAM = `
import { LockTimeoutError, StripedLock } from 'stripelock';

const warnings = [];
process.on('warning', ({ code, message }) => warnings.push({ code, message }));
const lock = new StripedLock({ trace: true });
const guard = lock.acquireSync('a');
const [{ holders }] = lock.inspect();
const work = async () => {
  const refused = await lock.acquire('a', { timeout: 5 }).catch((error) => error instanceof LockTimeoutError);
  guard.release();
  const result = await lock.withLock(['a', 'b'], () => 7);
  return { engine: lock.engine, acquiredAt: holders[0].acquiredAt, refused, result, warnings };
};
work().then((report) => setImmediate(() => console.log(JSON.stringify(report))));
`;
const ACQUIRED_ON = PROGRAM.split('\n').findIndex((line) => line.includes('lock.acquireSync')) + 1;

interface Report {
  engine: string;
  acquiredAt: string;
  refused: boolean;
  result: number;
  warnings: { code?: string; message: string }[];
}

let folder: string;
let packed: string;
let project: string;
let entry: string;

const newFolder = (): Promise<string> => mkdtemp(path.join(folder, 'place-'));

async function runBundle(file: string, nodeOptions: readonly string[] = []): Promise<Report> {
  const { code, stdout, stderr } = await runNode([...nodeOptions, file]);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Report;
}

/** The bundle alone, in a folder that no package is installed in or above. */
async function moved(file: string): Promise<string> {
  const away = await newFolder();
  await cp(path.dirname(file), away, { recursive: true });
  return path.join(away, path.basename(file));
}

/** A bundle of webpack knows where the package was: take it away from there. */
async function withoutPackage<T>(run: () => Promise<T>): Promise<T> {
  const [installed, hidden] = [path.join(project, 'node_modules'), path.join(project, 'hidden')];
  await cp(installed, hidden, { recursive: true });
  await rm(installed, { recursive: true });
  try {
    return await run();
  } finally {
    await cp(hidden, installed, { recursive: true });
    await rm(hidden, { recursive: true });
  }
}

const works = { refused: true, result: 7 };

beforeAll(async () => {
  folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), 'stripelock-bundlers-')));
  packed = packLocally(path.join(folder, 'release')).folder;
  project = path.join(folder, 'project');
  await mkdir(project);
  installLocally(packed, project);
  await writeFile(path.join(project, 'package.json'), '{ "name": "user", "private": true }\n');
  entry = path.join(project, 'main.mjs');
  await writeFile(entry, PROGRAM);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe.each(Object.entries(bundlers))('%s', (name, bundle) => {
  const to = (kind: string): string => path.join(project, `${kind} of ${name.replace(', ', ' ')}`);
  let byDefault: Awaited<ReturnType<typeof bundle>>;

  beforeAll(async () => {
    byDefault = await bundle({ entry, to: to('default') });
  });

  it('bundles it by default without a warning, and it is native where the package is installed', async () => {
    expect(byDefault.said).toBe('');
    expect(await runBundle(byDefault.file)).toMatchObject({ ...works, engine: 'native', warnings: [] });
  });

  it('where it is not installed, the bundle works on the JavaScript engine, with a warning that names the remedy', async () => {
    const alone = await moved(byDefault.file);
    const { engine, refused, result, warnings } = await withoutPackage(() => runBundle(alone));
    expect({ engine, refused, result }).toEqual({ ...works, engine: 'javascript' });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatchObject({
      code: 'STRIPELOCK_NO_ADDON',
      message: expect.stringMatching(/leave stripelock out of the bundle and install it where/) as string,
    });
  });

  it('native on another machine, with the files beside it that the docs name', async () => {
    const alone = await moved(byDefault.file);
    const beside = path.join(path.dirname(alone), 'node_modules', 'stripelock');
    for (const part of ['package.json', 'addon.cjs', 'prebuilds']) {
      await cp(path.join(packed, part), path.join(beside, part), { recursive: true });
    }
    const report = await withoutPackage(() => runBundle(alone));
    expect(report).toMatchObject({ ...works, engine: 'native', warnings: [] });
  });

  it('native on another machine, with the package left out of the bundle and installed there', async () => {
    const { file } = await bundle({ entry, to: to('external'), external: true });
    const alone = await moved(file);
    installLocally(packed, path.dirname(alone));
    const report = await withoutPackage(() => runBundle(alone));
    expect(report).toMatchObject({ ...works, engine: 'native', warnings: [] });
  });
});

describe('a bundle beside another version of the package', () => {
  it('works on the JavaScript engine, with a warning that says so, if the addon differs', async () => {
    const { file } = await bundlers['esbuild, to a module']!({ entry, to: path.join(project, 'versions') });
    const alone = await moved(file);
    installLocally(packed, path.dirname(alone));
    const loader = path.join(path.dirname(alone), 'node_modules', 'stripelock', 'addon.cjs');
    const text = await readFile(loader, 'utf8');
    await writeFile(loader, text.replace(/exports\.protocol = \d+/, 'exports.protocol = -1'));
    const { engine, warnings } = await runBundle(alone);
    expect(engine).toBe('javascript');
    expect(warnings.map(({ message }) => message)).toEqual([expect.stringContaining('another version')]);
  });
});

describe('a traced lock in a bundle', () => {
  it.each(['esbuild, to a module', 'esbuild, to CommonJS', 'esbuild, minified', 'rollup, to a module'])(
    'names the line of the source that acquired, under source maps: %s',
    async (name) => {
      const { file } = await bundlers[name]!({ entry, to: path.join(project, 'mapped'), sourcemap: true });
      const { acquiredAt } = await runBundle(file, ['--enable-source-maps']);
      expect(acquiredAt).toMatch(new RegExp(`main\\.mjs:${String(ACQUIRED_ON)}:`));
      expect(acquiredAt).not.toContain('mapped');
    },
  );
});

/** The part of nft that the tests use. */
interface Tracer {
  nodeFileTrace: (files: string[], options: { base: string }) => Promise<{ fileList: Set<string> }>;
}

describe('@vercel/nft', () => {
  it.each([
    ['import', 'main.mjs', PROGRAM],
    ['require', 'main.cjs', PROGRAM.replace(/import (\{.*\}) from ('.*')/, 'const $1 = require($2)')],
  ])('finds all that a program by %s needs to run natively elsewhere', async (_how, name, text) => {
    const program = path.join(project, name);
    await writeFile(program, text);
    const { nodeFileTrace } = (await loadTool('@vercel/nft/out/index.js')) as Tracer;
    const { fileList } = await nodeFileTrace([program], { base: project });
    const elsewhere = await newFolder();
    for (const file of fileList) {
      await cp(path.join(project, file), path.join(elsewhere, file), { recursive: true });
    }
    expect(existsSync(path.join(elsewhere, 'node_modules/stripelock/addon.cjs'))).toBe(true);
    const report = await withoutPackage(() => runBundle(path.join(elsewhere, name)));
    expect(report).toMatchObject({ ...works, engine: 'native', warnings: [] });
    expect(readdirSync(elsewhere)).not.toContain('dist');
  });
});
