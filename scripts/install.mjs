// Runs at `npm install`. Uses a prebuilt addon if one loads, otherwise compiles one. It never fails an install: without
// the addon the package uses its JavaScript engine, and warns when it is first used.
//
//   STRIPELOCK_SKIP_BUILD=1   do not compile

import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { addonPath, buildAddon } from './build-addon.mjs';

const prebuilds = path.join(packageRoot, 'prebuilds');

/** Whether there is a prebuilt binary for this platform that loads. A package with prebuilt binaries has `dist/`, too. */
async function hasPrebuilt() {
  if (!existsSync(prebuilds)) return false;
  const { platformName } = await import('../dist/engine/native/platform.js');
  return loads(path.join(prebuilds, platformName(), 'stripelock.node'));
}

/**
 * In a separate process: a binary of the wrong kind may crash the process.
 *
 * @param {string} file
 */
function loads(file) {
  if (!existsSync(file)) return false;
  return (
    spawnSync(process.execPath, ['-e', 'require(process.argv[1])', file], { stdio: 'ignore' }).status === 0
  );
}

/**
 * The most informative line of node-gyp's output, for a one-line notice.
 *
 * @param {string} output
 */
function reasonOf(output) {
  const lines = output.split('\n').map((line) => line.replace(/^gyp ERR! (stack )?(Error: )?/, '').trim());
  const telling =
    lines.find((line) => /\berror:|not found|Could not find|ENOTFOUND|EAI_AGAIN|ECONN|EACCES/.test(line)) ??
    lines.find((line) => /error/i.test(line));
  return telling?.slice(0, 200);
}

/** @param {string} reason */
function notice(reason) {
  console.error(
    `stripelock: ${reason}; the JavaScript engine will be used. For the native engine install a C++20 compiler, ` +
      `make and Python 3, then run: npm rebuild stripelock --foreground-scripts`,
  );
}

async function install() {
  // Without dist/, as in a fresh checkout, no prebuilt binary can be used.
  if (await hasPrebuilt().catch(() => false)) return;
  if (!['', '0', undefined].includes(process.env.STRIPELOCK_SKIP_BUILD)) return;

  const { ok, output } = buildAddon({ stdio: 'pipe' });
  if (!ok) {
    // A partial build is useless, and an older one would make the notice wrong.
    rmSync(path.join(packageRoot, 'build'), { recursive: true, force: true });
    const reason = reasonOf(output);
    notice(`the native addon could not be compiled${reason ? ` (${reason})` : ''}`);
  } else if (!loads(addonPath)) {
    notice('the native addon was compiled but does not load');
  }
}

try {
  await install();
} catch (error) {
  notice(`the native addon could not be compiled (${/** @type {Error} */ (error).message})`);
}
