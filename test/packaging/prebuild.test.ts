import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { platformName } from '../../unbundled/engine/native/platform.js';
import { addonFlags, systemHeaders } from '../../scripts/prebuild/build.mjs';
import { targets } from '../../scripts/prebuild/targets.mjs';
import { PACKAGE_ROOT, makeFolder, removeFolder } from '../support/package-copy.js';

// The script behind `npm run build:prebuilds`, with the compiler of this machine and for its own platform.

const linux = process.platform === 'linux';
const glibc = linux && !platformName().endsWith('-musl');
// One build of the whole addon without the optimizer takes 15 s on two idle processors; other tests may hold them.
const buildLimit = 240_000;

interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

function run(command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return new Promise((resolve) => {
    // A hang ends before the test does.
    const options = { cwd: PACKAGE_ROOT, env: { ...process.env, ...env }, timeout: buildLimit - 10_000 };
    execFile(command, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

// The optimizer takes most of the time of a build, and nothing here looks at its work.
const prebuild = (...args: string[]): Promise<Result> =>
  run(process.execPath, ['scripts/prebuild/main.mjs', ...args], { CXXFLAGS: '-O0' });

const names = targets.map(({ name }) => name);
let folder: string;

beforeAll(async () => {
  folder = await makeFolder();
});

afterAll(() => removeFolder(folder));

it('the command that `npm run package` suggests without a binary names a target', async () => {
  const none = path.join(folder, 'none');
  const packed = await run(process.execPath, ['scripts/pack.mjs', '--out', folder, '--prebuilds', none]);
  const [, suggested] = /`npm run build:prebuilds -- ([^`]+)`/.exec(packed.stderr) ?? [];
  expect(suggested, packed.stderr).toBeDefined();
  const tried = await prebuild(...suggested!.split(' '), '--test-only', '--out', none);
  expect(tried).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ *there is no .*stripelock\.node\n$/) as string,
  });
});

describe('the target of this machine, built with its own compiler', () => {
  let out: string;
  let built: Result;

  beforeAll(async () => {
    out = path.join(folder, 'prebuilds');
    built = await prebuild(platformName(), '--system', '--out', out);
  }, buildLimit);

  it('lies where the package has it, alone, and did all that a binary must do', () => {
    expect(built.code, `${built.stdout}${built.stderr}`).toBe(0);
    expect(readdirSync(out, { recursive: true }).map(String).sort()).toEqual([
      platformName(),
      path.join(platformName(), 'stripelock.node'),
    ]);
    expect(built.stdout).toMatch(new RegExp(`${platformName()} +tested .*by Node ${process.version}`));
  });

  if (linux) {
    it('is stripped', async () => {
      const { stdout } = await run('objdump', ['-t', path.join(out, platformName(), 'stripelock.node')]);
      expect(stdout).toContain('no symbols');
    });
  }

  if (glibc) {
    it('is listed with the versions of the symbols that it needs', async () => {
      const { stdout } = await run('objdump', ['-T', path.join(out, platformName(), 'stripelock.node')]);
      const versions = [...stdout.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
      expect(versions.length).toBeGreaterThan(0);
      expect(built.stdout).toContain(`GLIBC_2.${String(Math.max(...versions))}`);
    });
  }
});

if (linux) {
  it('the compiler gets the flags, definitions and sources that node-gyp takes from binding.gyp', async () => {
    const makefile = path.join(PACKAGE_ROOT, 'build', 'stripelock.target.mk');
    expect(existsSync(makefile), 'build the addon first: npm run build').toBe(true);
    const text = await readFile(makefile, 'utf8');
    const listed = (name: string): string[] =>
      (new RegExp(`^${name} := \\\\\\n((?:.*\\\\\\n)*.*)`, 'm').exec(text)?.[1] ?? '')
        .split('\n')
        .map((line) => line.replace(/\\$/, '').trim().replaceAll("'", ''))
        .filter((word) => word !== '');
    const target = targets.find(({ name }) => name === platformName())!;
    const { compile, sources } = await addonFlags(target, systemHeaders());
    const gyps = [...listed('CFLAGS_Release'), ...listed('CFLAGS_CC_Release'), ...listed('DEFS_Release')];
    expect(gyps).toContain('-DNAPI_VERSION=8');
    const withoutIncludes = compile.filter((word) => !word.startsWith('-I'));
    // A build may have been made with warnings as errors, which changes no binary.
    const counted = (words: string[]): string[] => words.filter((word) => word !== '-Werror').sort();
    expect(counted(withoutIncludes)).toEqual(counted(gyps));
    expect(sources.map((file) => path.basename(file, '.cc')).sort()).toEqual(
      listed('OBJS')
        .map((object) => path.basename(object, '.o'))
        .sort(),
    );
  }, 120_000);
}

describe('a binary', () => {
  /** A shared library of one function, where the target's binary belongs. */
  async function binaryFrom(out: string, source: string, ...more: string[]): Promise<string> {
    const binary = path.join(out, platformName(), 'stripelock.node');
    await mkdir(path.dirname(binary), { recursive: true });
    return compiled(binary, source, ...more);
  }

  async function compiled(library: string, source: string, ...more: string[]): Promise<string> {
    await writeFile(`${library}.c`, source);
    const words = ['-shared', '-fPIC', '-o', library, `${library}.c`, ...more];
    const { code, stderr } = await run(process.env['CC'] ?? 'cc', words);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return library;
  }

  if (glibc) {
    it('that needs a newer glibc than every supported system has is refused, with the version', async () => {
      const out = path.join(folder, 'newer');
      const script = path.join(folder, 'newer.map');
      await writeFile(script, 'GLIBC_2.29 { global: newer; };\n');
      const library = await compiled(
        path.join(folder, 'libnewer.so'),
        'int newer(void) { return 1; }\n',
        `-Wl,--version-script=${script}`,
      );
      await binaryFrom(out, 'int newer(void); int use(void) { return newer(); }\n', library);
      const { code, stderr } = await prebuild(platformName(), '--test-only', '--out', out);
      expect(stderr).toContain('needs GLIBC_2.29, more than GLIBC_2.28');
      expect(code).toBe(1);
    });
  }

  if (linux) {
    it('that is not an addon is refused by the host that tries it', async () => {
      const out = path.join(folder, 'no-addon');
      await binaryFrom(out, '#include <stdio.h>\nvoid use(void) { puts("no addon"); }\n');
      const { code, stderr } = await prebuild(platformName(), '--test-only', '--out', out);
      expect(stderr).toMatch(/modules ended with 0, printed:[^]*the engine is javascript/);
      expect(code).toBe(1);
    });
  }

  it('that is not there fails where it is asked for', async () => {
    const { code, stderr } = await prebuild(
      platformName(),
      '--test-only',
      '--out',
      path.join(folder, 'none'),
    );
    expect(stderr).toContain('there is no');
    expect(code).toBe(1);
  });
});

describe('the command', () => {
  it('refuses unknown targets by name, and lists those that exist', async () => {
    const { code, stdout, stderr } = await prebuild(platformName(), 'linux-x32', 'beos-x64');
    expect(code).toBe(1);
    expect(stderr).toBe(
      `prebuild: unknown targets: linux-x32, beos-x64. The targets are ${names.join(', ')}\n`,
    );
    expect(stdout).toBe('');
  });

  it('says of a target that this machine cannot build what it takes, and counts it as not built', async () => {
    const foreign = process.platform === 'darwin' ? 'win32-arm64' : 'darwin-arm64';
    const { code, stdout } = await prebuild(foreign, '--out', path.join(folder, 'foreign'));
    expect(stdout).toMatch(new RegExp(`${foreign} +not built .*on a machine of its platform, with --system`));
    expect(code).toBe(1);
    expect(existsSync(path.join(folder, 'foreign'))).toBe(false);
  });
});
