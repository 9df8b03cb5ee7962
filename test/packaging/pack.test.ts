import { createHash } from 'node:crypto';
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { targetsIn } from '../../scripts/docs/markdown.mjs';
import { addonPath } from '../../scripts/build-addon.mjs';
import { loadTool, toolPath } from '../../scripts/large-tools.mjs';
import { packLocally } from '../../scripts/local-package.mjs';
import { PACKAGE_ROOT } from '../support/package-copy.js';
import * as installed from './installed.js';

// The tarball that users get, and what an install of it does.

// An install, and one compilation of the addon, on a machine that may be busy with other tests.
const LIMIT = 600_000;

let folder: string;
let env: NodeJS.ProcessEnv;
let hidden: NodeJS.ProcessEnv;
let tarball: string;
let project: string;
let result: installed.Result;

beforeAll(async () => {
  folder = realpathSync(await mkdtemp(path.join(os.tmpdir(), 'stripelock-pack-')));
  env = await installed.usersEnvironment();
  hidden = await installed.environmentWithoutCompiler(env, folder);
  tarball = packLocally(path.join(folder, 'packed')).tarball;
  project = path.join(folder, 'project');
  result = await installed.install(project, tarball, hidden);
}, LIMIT);

afterAll(() => rm(folder, { recursive: true, force: true }));

const inPackage = (...names: string[]): string => installed.inPackage(project, ...names);
const filesBelow = (place: string): string[] =>
  readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
const manifestAt = async (place: string) =>
  JSON.parse(await readFile(path.join(place, 'package.json'), 'utf8')) as Record<string, unknown>;

/** Pretends to be a platform without a binary. */
async function fakeArchitecture(): Promise<string[]> {
  const file = path.join(folder, 'fake-architecture.cjs');
  await writeFile(file, "Object.defineProperty(process, 'arch', { value: 'riscv64' });\n");
  return ['--require', file];
}

describe('the tarball', () => {
  const names = (): string[] =>
    filesBelow(inPackage()).map((file) => path.relative(inPackage(), file).replaceAll('\\', '/'));

  it('contains all that is loaded, read and compiled', () => {
    expect(names()).toEqual(
      expect.arrayContaining([
        ...['LICENSE', 'README.md', 'addon.cjs', 'package.json'],
        ...['dist/index.cjs', 'dist/index.mjs', 'dist/index.d.cts', 'dist/index.d.mts'],
        'dist/command.cjs',
        ...['dist/stripelock.cjs', 'dist/stripelock.cjs.map', 'dist/stores.cjs', 'dist/esm/index.mjs'],
        ...[
          'native/binding.gyp',
          'native/core/table/table.cc',
          'native/node/addon.cc',
          'scripts/compile.mjs',
        ],
        installed.PREBUILT,
      ]),
    );
  });

  it('lists what is inside, with licences, and the checksums of its binaries', async () => {
    const sbom = JSON.parse(await readFile(inPackage('sbom.cdx.json'), 'utf8')) as {
      bomFormat: string;
      components: { name: string; version: string; licenses: unknown[]; hashes: unknown[] }[];
    };
    expect(sbom.bomFormat).toBe('CycloneDX');
    const listed = sbom.components.map(({ name }) => name);
    const { dependencies } = await manifestAt(inPackage());
    expect(listed).toEqual(expect.arrayContaining(Object.keys(dependencies as object)));
    expect(listed).toEqual(
      expect.arrayContaining(['xxhash-addon', 'node-addon-api', 'jsonc-parser', 'pprof-format']),
    );
    for (const { licenses, hashes } of sbom.components)
      expect([licenses.length, hashes.length]).toEqual([1, 1]);
    const sums = await readFile(inPackage('prebuilds/SHA256SUMS'), 'utf8');
    for (const line of sums.trim().split('\n')) {
      const [sum, file] = line.split('  ');
      const binary = await readFile(inPackage('prebuilds', file!));
      expect(createHash('sha256').update(binary).digest('hex')).toBe(sum);
    }
    expect(
      sums
        .trim()
        .split('\n')
        .map((line) => `prebuilds/${line.split('  ')[1]!}`),
    ).toContain(installed.PREBUILT);
  });

  it('has a README whose links and pictures are absolute, in the tree of its version', async () => {
    const readme = await readFile(inPackage('README.md'), 'utf8');
    const { version } = await manifestAt(inPackage());
    const files = `https://raw.githubusercontent.com/stripelock/stripelock/v${String(version)}/bench/results/`;
    expect(readme).toContain(`](${files}`);
    const relative = targetsIn(readme).filter(({ url }) => !/^(?:https:|#)/.test(url));
    expect(relative).toEqual([]);
  });

  it('has only ASCII code: with one other character, V8 stores two bytes for each character of the file', async () => {
    const code = names().filter((file) => /^dist\/.*\.(?:cjs|mjs)$/.test(file) && !file.includes('testing'));
    expect(code).toContain('dist/stripelock.cjs');
    for (const file of code) {
      // eslint-disable-next-line no-control-regex
      expect(await readFile(inPackage(file), 'utf8'), file).toMatch(/^[\x00-\x7f]*$/);
    }
  });

  it('contains nothing that runs at install, and nothing that npm or yarn would compile by themselves', async () => {
    const manifest = await manifestAt(inPackage());
    expect(manifest['scripts']).toBeUndefined();
    expect(manifest['gypfile']).toBeUndefined();
    expect(existsSync(inPackage('binding.gyp'))).toBe(false);
  });

  it('contains no sources of lib/, tests, benchmarks, build results or tools', () => {
    const unwanted =
      /^(\.|lib\/|unbundled\/|test\/|bench\/|build\/|examples\/|native\/test\/|node_modules\/|scripts\/prebuild)|\.tsbuildinfo$/;
    expect(names().filter((name) => unwanted.test(name))).toEqual([]);
  });

  it('has a command, which npm puts on the path of scripts', async () => {
    expect((await manifestAt(inPackage()))['bin']).toEqual({ stripelock: 'dist/command.cjs' });
    const lock = path.join(folder, 'a.lock');
    const args = ['exec', '--', 'stripelock', 'run', '--path', lock, '--', process.execPath, '-p', '6 * 7'];
    expect(await installed.run('npm', args, project, hidden)).toMatchObject({ code: 0, stdout: '42\n' });
  });

  it('has maps that lead to the lines of the sources in lib/', async () => {
    const script = `
      const { StripedLock } = require('stripelock');
      try { new StripedLock({ stripes: 0 }); } catch (error) { console.log(error.stack); }
    `;
    const args = ['--enable-source-maps', '-e', script];
    const { stdout } = await installed.run(process.execPath, args, project, env);
    const [, file, line] = /(lib\/lock\/\S+\.ts):(\d+)/.exec(stdout.replaceAll('\\', '/')) ?? [];
    const source = await readFile(path.join(PACKAGE_ROOT, file!), 'utf8');
    expect(source.split('\n')[Number(line) - 1]).toMatch(/throw|check|options/);
  });
});

describe('the folder of the sources', () => {
  it.each(['pack', 'publish'])('refuses npm %s by hand, and names what to do instead', async (command) => {
    const { code, stderr } = await installed.run('npm', [command, '--dry-run'], PACKAGE_ROOT, env);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/npm run package|private/);
  });

  it('is private, so that npm does not publish it where scripts are not run', async () => {
    expect((await manifestAt(PACKAGE_ROOT))['private']).toBe(true);
    expect((await manifestAt(inPackage()))['private']).toBeUndefined();
  });
});

describe('installed where no compiler exists', () => {
  it('says nothing, and adds three packages', () => {
    expect(result.code, result.stderr).toBe(0);
    expect(`${result.stdout}\n${result.stderr}`).not.toMatch(/stripelock|gyp/);
    const packages = readdirSync(path.join(project, 'node_modules')).filter((name) => !name.startsWith('.'));
    expect(packages.sort()).toEqual(['bindings', 'file-uri-to-path', 'stripelock']);
  });

  it('takes at most 6 MB on disk, with binaries for all eight platforms', () => {
    const block = 4096;
    const onDisk = (files: string[]): number =>
      files.reduce((sum, file) => sum + Math.ceil(statSync(file).size / block) * block, 0);
    const all = filesBelow(path.join(project, 'node_modules'));
    const binaries = all.filter((file) => file.endsWith('.node'));
    expect(binaries).toHaveLength(1);
    // The one here stands for all; pack.mjs adds up the prebuilt ones, some of which contain libraries.
    expect(onDisk(all) + 7 * onDisk(binaries)).toBeLessThan(6 * 1024 * 1024);
  });

  it('locks natively by import and require, which share classes, in every thread, without a warning', async () => {
    expect(await installed.runUsersProgram(project, hidden)).toEqual(installed.works('native'));
  });

  it('loads only three of its files at import, the addon with the first lock, and stores when they are imported', async () => {
    // Every file costs each thread a part of a millisecond, 86 files cost it 30 ms, and so does each line that V8 reads.
    const script = `
      import { createRequire } from 'node:module';
      const { cache } = createRequire(import.meta.url);
      const loaded = () => Object.keys(cache).map((file) => file.split(/node_modules./).at(-1).replaceAll('\\\\', '/'));
      const { StripedLock } = await import('stripelock');
      console.log(loaded().join());
      new StripedLock();
      console.log(loaded().join());
      await import('stripelock/redis');
      console.log(loaded().join());
    `;
    const args = ['--input-type=module', '-e', script];
    const { stdout, stderr } = await installed.run(process.execPath, args, project, hidden);
    const own = 'stripelock/dist/index.cjs,stripelock/dist/stripelock.cjs';
    const used = `${own},stripelock/${installed.PREBUILT}`;
    const stores = 'stripelock/dist/redis.cjs,stripelock/dist/stores.cjs';
    expect(stdout, stderr).toBe(`${own}\n${used}\n${used},${stores}\n`);
    // The third is what was imported: it does not show in the cache of CommonJS.
    const face = await readFile(inPackage('dist', 'index.mjs'), 'utf8');
    expect([...face.matchAll(/from '([^']*)'/g)].map(([, file]) => file)).toEqual(['./index.cjs']);
  });

  it('uses the prebuilt binary even where a compiled one does not load', async () => {
    const compiled = inPackage('build', 'Release', 'stripelock.node');
    await installed.run(
      process.execPath,
      ['-e', `fs.mkdirSync(${JSON.stringify(path.dirname(compiled))}, { recursive: true })`],
      project,
      env,
    );
    await writeFile(compiled, 'for another system');
    expect(await installed.runUsersProgram(project, hidden)).toEqual(installed.works('native'));
    await rm(inPackage('build'), { recursive: true });
  });
});

describe('where no prebuilt binary fits', () => {
  it('the warning comes once, lists what was tried, and names the command that compiles the addon', async () => {
    const report = await installed.runUsersProgram(project, hidden, await fakeArchitecture());
    const { warnings, ...rest } = report;
    expect(rest).toMatchObject({ engines: ['javascript', 'javascript'], same: true, shown: 1 });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]!.code).toBe('STRIPELOCK_NO_ADDON');
    const target = `${process.platform}-riscv64`;
    expect(warnings[0]!.message.split('\n').slice(1)).toEqual([
      `  - no prebuilt binary is made for ${target}`,
      expect.stringContaining(`: node ${JSON.stringify(inPackage('scripts', 'compile.mjs'))}`),
    ]);
  });

  it('it says of each file why it does not load', async () => {
    const binary = inPackage(installed.PREBUILT);
    await rename(binary, `${binary}.away`);
    const missing = await installed.runUsersProgram(project, hidden);
    expect(missing.warnings[0]!.message).toContain(`  - ${installed.PREBUILT}: not found\n`);
    await writeFile(binary, 'for another system');
    await chmod(binary, 0o755);
    const broken = await installed.runUsersProgram(project, hidden);
    await rename(`${binary}.away`, binary);
    const line = broken.warnings[0]!.message.split('\n').find((each) => each.includes(installed.PREBUILT));
    expect(line).toMatch(/^ {2}- prebuilds\/[^:]*: .{10,}/);
    expect(line).not.toContain('not found');
  });

  it(
    'that command compiles it there, and the package then runs natively without a warning',
    async () => {
      const options = await fakeArchitecture();
      const before = await installed.runUsersProgram(project, env, options);
      const command = /: (node .*)$/.exec(before.warnings[0]!.message)?.[1];
      const [, script] = /^node ("[^"]*")$/.exec(command!)!;
      const elsewhere = os.tmpdir();
      const compiled = await installed.run(process.execPath, [JSON.parse(script!) as string], elsewhere, env);
      expect(compiled.code, compiled.stdout + compiled.stderr).toBe(0);
      expect(await installed.runUsersProgram(project, env, options)).toEqual(installed.works('native'));
      // It leaves the binary there, and nothing else.
      const binary = inPackage('build', 'Release', 'stripelock.node');
      expect(filesBelow(inPackage('build'))).toEqual([binary]);
      // Anybody who compiles the same sources by the same tools, wherever that is, gets what was published.
      expect((await readFile(binary)).equals(await readFile(addonPath))).toBe(true);
    },
    LIMIT,
  );

  it(
    'that command fails where no compiler exists, says so, and leaves nothing behind',
    async () => {
      await rm(inPackage('build'), { recursive: true, force: true });
      const script = inPackage('scripts', 'compile.mjs');
      const { code, stderr } = await installed.run(process.execPath, [script], project, hidden);
      expect(code).toBe(1);
      expect(stderr.trim().split('\n').at(-1)).toBe('stripelock: the addon does not compile');
      expect(existsSync(inPackage('build'))).toBe(false);
    },
    LIMIT,
  );
});

interface Publint {
  publint: (options: { pkgDir: string; strict: boolean }) => Promise<{ messages: unknown[] }>;
}

describe('tools that check packages find nothing wrong:', () => {
  it('publint', async () => {
    const { publint } = (await loadTool('publint/src/index-node.js')) as Publint;
    const { messages } = await publint({ pkgDir: inPackage(), strict: true });
    expect(messages).toEqual([]);
  });

  it('arethetypeswrong, for node10 too', async () => {
    const args = [
      toolPath('@arethetypeswrong/cli/dist/index.js'),
      tarball,
      '--no-emoji',
      '--format',
      'ascii',
    ];
    const { code, stdout, stderr } = await installed.run(process.execPath, args, project, env);
    expect(code, stdout + stderr).toBe(0);
    expect(stdout).toContain('No problems found');
  });
});
