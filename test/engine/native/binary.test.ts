import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ENGINE_PROTOCOL } from '../../../unbundled/engine/contract/engine.js';
import { platformName } from '../../../unbundled/engine/native/platform.js';
import { targets } from '../../../scripts/prebuild/targets.mjs';
import { ADDON, copyForTest, makeFolder, PACKAGE_ROOT, removeFolder } from '../../support/package-copy.js';
import { runNode, type ProgramResult } from '../../support/programs.js';

const PREBUILT = `prebuilds/${platformName()}/stripelock.node`;
const COMPILES = 'this command compiles the addon: ';

const addon = createRequire(import.meta.url)('../../../addon.cjs') as {
  protocol: number;
  prebuilt: Record<string, () => unknown>;
};

describe('addon.cjs', () => {
  it('has the protocol of the engine', () => {
    expect(addon.protocol).toBe(ENGINE_PROTOCOL);
  });

  it('has a literal require for the binary of every platform that one is built for, under its name', async () => {
    expect(Object.keys(addon.prebuilt).sort()).toEqual(targets.map(({ name }) => name).sort());
    const text = await readFile(path.join(PACKAGE_ROOT, 'addon.cjs'), 'utf8');
    for (const { name } of targets) {
      expect(text).toContain(`'${name}': () => require('./prebuilds/${name}/stripelock.node'),`);
    }
  });
});

/** Makes a lock on the copy of the package, by its entry point, and prints its engine and the addon's file. */
function engineOf(entry: string, nodeOptions: readonly string[] = []): Promise<ProgramResult> {
  const script = `
    import { createRequire } from 'node:module';
    const { StripedLock } = await import(${JSON.stringify(pathToFileURL(entry).href)});
    const { engine } = new StripedLock();
    const { cache } = createRequire(import.meta.url);
    console.log(engine, Object.keys(cache).filter((file) => file.endsWith('.node')).join());
  `;
  return runNode([...nodeOptions, '--input-type=module', '-e', script]);
}

async function put(copy: string, file: string, contents?: string): Promise<string> {
  const place = path.join(copy, file);
  await mkdir(path.dirname(place), { recursive: true });
  if (contents === undefined) await cp(path.join(PACKAGE_ROOT, ADDON), place);
  else await writeFile(place, contents);
  return place;
}

describe.each([
  ['for Node', 'dist/index.mjs'],
  ['for bundlers', 'dist/esm/index.mjs'],
  ['for tests', 'unbundled/index.js'],
])('the package %s', (_whom, entry) => {
  it('loads what was compiled on this machine before a prebuilt binary, which may be older', async () => {
    const copy = await copyForTest();
    const compiled = await put(copy, ADDON);
    await put(copy, PREBUILT);
    const expected = { code: 0, stdout: `native ${compiled}\n`, stderr: '' };
    expect(await engineOf(path.join(copy, entry))).toMatchObject(expected);
  });

  it('loads a prebuilt binary where what was compiled does not load, or nothing was', async () => {
    const copy = await copyForTest();
    const prebuilt = await put(copy, PREBUILT);
    const expected = { code: 0, stdout: `native ${prebuilt}\n`, stderr: '' };
    expect(await engineOf(path.join(copy, entry))).toMatchObject(expected);
    await put(copy, ADDON, 'for another system');
    expect(await engineOf(path.join(copy, entry))).toMatchObject(expected);
  });

  it('warns of each binary that did not load, with the reason, and of what compiles one', async () => {
    const copy = await copyForTest();
    const missing = await engineOf(path.join(copy, entry));
    expect(missing).toMatchObject({ code: 0, stdout: 'javascript \n' });
    expect(missing.stderr).toContain(`engine.\n  - ${PREBUILT}: not found\n`);
    const script = path.join(copy, 'scripts', 'compile.mjs');
    expect(missing.stderr).toContain(`${COMPILES}node ${JSON.stringify(script)}\n`);
    await put(copy, ADDON, 'for another system');
    await put(copy, PREBUILT, 'for yet another system');
    const { stderr } = await engineOf(path.join(copy, entry));
    for (const file of [ADDON, PREBUILT]) {
      const line = stderr.split('\n').find((each) => each.startsWith(`  - ${file}: `));
      expect(line?.length).toBeGreaterThan(`  - ${file}: not found`.length);
    }
  });

  it('names the option of Node that forbids addons, and no compiler', async () => {
    const copy = await copyForTest({ addon: 'link' });
    const known = process.allowedNodeEnvironmentFlags;
    const model = known.has('--permission') ? '--permission' : '--experimental-permission';
    const cases = [
      [['--no-addons'], '--no-addons forbids addons: leave it out'],
      [[model, '--allow-fs-read=*'], '--permission forbids addons: add --allow-addons'],
    ] as const;
    for (const [nodeOptions, says] of cases) {
      const { code, stdout, stderr } = await engineOf(path.join(copy, entry), nodeOptions);
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'javascript \n' });
      expect(stderr).toContain(says);
      expect(stderr).not.toContain('compiler');
    }
  });

  it('names the command of the sources where it runs in a checkout of them', async () => {
    const copy = await copyForTest();
    await put(copy, 'lib/index.ts', '');
    const { stderr } = await engineOf(path.join(copy, entry));
    expect(stderr).toContain(`${COMPILES}npm run build\n`);
  });
});

describe('the package as part of a bundle, in a separate folder,', () => {
  /** The bundle's file, and where the package is installed for it. */
  async function bundled(): Promise<{ file: string; installed: string }> {
    const folder = await makeFolder();
    onTestFinished(() => removeFolder(folder));
    await cp(path.join(PACKAGE_ROOT, 'dist/esm'), path.join(folder, 'output'), { recursive: true });
    const installed = path.join(folder, 'node_modules', 'stripelock');
    await mkdir(path.dirname(installed));
    return { file: path.join(folder, 'output', 'index.mjs'), installed };
  }

  it('finds the addon of the installed package by its name', async () => {
    const { file, installed } = await bundled();
    await symlink(await copyForTest({ addon: 'link' }), installed, 'junction');
    expect(await engineOf(file)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^native /) as string,
      stderr: '',
    });
  });

  it('warns where the package is not installed, and says what to do', async () => {
    const { file } = await bundled();
    const { code, stdout, stderr } = await engineOf(file);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'javascript \n' });
    expect(stderr).toMatch(/STRIPELOCK_NO_ADDON[^]*not found\n.*leave stripelock out of the bundle/);
  });

  it('does not load the addon of another version, and says so', async () => {
    const { file, installed } = await bundled();
    const copy = await copyForTest({ addon: 'link' });
    await symlink(copy, installed, 'junction');
    const loader = path.join(copy, 'addon.cjs');
    const text = await readFile(loader, 'utf8');
    await rm(loader);
    await writeFile(loader, text.replace(/protocol = \d+/, 'protocol = 1'));
    const { code, stdout, stderr } = await engineOf(file);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'javascript \n' });
    expect(stderr).toMatch(/STRIPELOCK_NO_ADDON[^]*another version[^]*out of the bundle, or bundle it again/);
  });
});
