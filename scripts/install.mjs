// npm runs this at the end of `npm ci` in a checkout of the sources: it compiles the addon. It never fails an install:
// without the addon the package falls back to its JavaScript engine, and warns at its first use. The published package has no
// such script. A package that npm makes of a git repository has no node-gyp: then it compiles nothing.
//
//   STRIPELOCK_SKIP_BUILD=1   do not compile

import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { buildAddon } from './build-addon.mjs';

const skipped = !['', '0', undefined].includes(process.env.STRIPELOCK_SKIP_BUILD);
if (!skipped && existsSync(path.join(packageRoot, 'node_modules/node-gyp'))) {
  let { ok, output } = { ok: false, output: '' };
  try {
    ({ ok, output } = buildAddon({ stdio: 'pipe' }));
  } catch (error) {
    output = /** @type {Error} */ (error).message;
  }
  if (!ok) {
    // A partial build is useless, and an older one would make the notice wrong.
    rmSync(path.join(packageRoot, 'build'), { recursive: true, force: true });
    console.error(
      `${output}\nstripelock: the native addon could not be compiled, so the JavaScript engine is used. For the native engine ` +
        'install a C++20 compiler, make and Python 3, then run: npm run build',
    );
  }
}
