import { existsSync } from 'node:fs';
import path from 'node:path';
import { ENGINE_PROTOCOL } from '../contract/engine.js';
import { binaries, loaderByPath, type Binaries, type LoaderByPath } from './binaries.js';
import { platformName } from './platform.js';

/**
 * Thrown if no binary of the addon loads. The message lists each binary that was tried, the reason why it
 * failed, and the remedy.
 */
export class AddonMissing extends Error {}

const COMPILED = 'build/Release/stripelock.node';

/**
 * Loads the first binary that works. A binary that was compiled on this machine is tried first, because a
 * user compiled it on purpose. Throws {@link AddonMissing}.
 */
export function loadBinary(): object {
  const loader = loaderByPath();
  if (loader === undefined) return foundByName();
  const compiled = loadedByPath(loader, COMPILED);
  if (compiled !== undefined) return compiled;
  const target = platformName();
  return loadedByPath(loader, prebuiltFor(target)) ?? foundByName(target);
}

/**
 * Loads a file by its path. Returns undefined if the file does not load. The caller then calls
 * {@link foundByName}, which tries again, or reports the reason of the failure.
 */
function loadedByPath({ folder, load }: LoaderByPath, file: string): object | undefined {
  const place = path.join(folder, file);
  if (!existsSync(place)) return undefined;
  try {
    return load(place);
  } catch {
    return undefined;
  }
}

function prebuiltFor(target: string): string {
  return `prebuilds/${target}/stripelock.node`;
}

function foundByName(known?: string): object {
  const all = installed();
  const failures: string[] = [];
  const codes = new Set<unknown>();
  const attempt = (file: string, load: () => object): object | undefined => {
    try {
      return load();
    } catch (error) {
      failures.push(`${file}: ${reasonOf(error)}`);
      codes.add((error as { code?: unknown }).code);
      return undefined;
    }
  };
  if (existsSync(path.join(all.folder, COMPILED))) {
    const compiled = attempt(COMPILED, all.compiled);
    if (compiled !== undefined) return compiled;
  }
  const target = known ?? platformName();
  const load = all.prebuilt[target];
  if (load === undefined) {
    failures.push(`no prebuilt binary is made for ${target}`);
  } else {
    const prebuilt = attempt(prebuiltFor(target), load);
    if (prebuilt !== undefined) return prebuilt;
  }
  throw new AddonMissing(
    `${failures.map((each) => `  - ${each}\n`).join('')}${codes.has('ERR_DLOPEN_DISABLED') ? permission() : remedy(all.folder)}`,
  );
}

function installed(): Binaries {
  let all: Binaries;
  try {
    all = binaries();
  } catch (error) {
    throw new AddonMissing(
      `  - the package's own files: ${reasonOf(error)}\n` +
        'If this program was bundled, leave stripelock out of the bundle and install it where the program runs',
    );
  }
  if (all.protocol === ENGINE_PROTOCOL) return all;
  throw new AddonMissing(
    `  - ${all.folder} has another version than the one that this program was bundled with\n` +
      'Leave stripelock out of the bundle, or bundle it again',
  );
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (code === 'MODULE_NOT_FOUND') return 'not found';
  return String(message ?? error).split('\n')[0]!;
}

/** Returns the text that names the option of Node that forbids addons, and the remedy. */
function permission(): string {
  const { permission: model } = process as { permission?: { has(scope: string): boolean } };
  return model?.has('addon') === false
    ? "Node's option --permission forbids addons: add --allow-addons"
    : "Node's option --no-addons forbids addons: leave it out";
}

/**
 * Returns the text that names the command for compiling the addon on this machine. The command depends on
 * whether the folder is a checkout: only a checkout contains the folder `lib`.
 */
function remedy(folder: string): string {
  const checkout = existsSync(path.join(folder, 'lib'));
  const command = checkout
    ? 'npm run build'
    : `node ${JSON.stringify(path.join(folder, 'scripts', 'compile.mjs'))}`;
  return `With a C++20 compiler, make and Python 3 this command compiles the addon: ${command}`;
}
