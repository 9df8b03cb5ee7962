// npm runs this at the end of `npm ci` in a checkout of the sources: it compiles the addon. It never fails an install:
// without the addon the package uses its JavaScript engine, and warns when it is first used. The published package has no
// such script. Where npm has made a package of a git repository there is no node-gyp: then it compiles nothing.
//
//   STRIPELOCK_SKIP_BUILD=1   do not compile

import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { addonPath, buildAddon } from './build-addon.mjs';

/**
 * In a separate process: a binary of the wrong kind may crash the process.
 *
 * @param {string} file
 */
function loads(file) {
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

function hasNodeGyp() {
  try {
    createRequire(import.meta.url).resolve('node-gyp/package.json');
    return true;
  } catch {
    return false;
  }
}

/** @param {string} reason */
function notice(reason) {
  console.error(
    `stripelock: ${reason}; the JavaScript engine will be used. For the native engine install a C++20 compiler, ` +
      `make and Python 3, then run: npm run build`,
  );
}

function install() {
  if (!['', '0', undefined].includes(process.env.STRIPELOCK_SKIP_BUILD) || !hasNodeGyp()) return;
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
  install();
} catch (error) {
  notice(`the native addon could not be compiled (${/** @type {Error} */ (error).message})`);
}
