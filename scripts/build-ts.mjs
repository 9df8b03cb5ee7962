// Compiles lib/ to unbundled/, one file for each module, and bundles that to dist/, which ships. Afterwards both folders
// contain the output of lib/ and nothing else. If lib/ does not compile, neither changes.
//
//   node scripts/build-ts.mjs
//
// Tests use dist/, as users do. Those that look at one module import it from unbundled/.

import path from 'node:path';

import { packageRoot } from './addon-inputs.mjs';
import { bundle } from './build/bundle.mjs';
import { compile } from './build/compile.mjs';
import { makeEqual } from './build/files.mjs';

const { folder, files, wrong } = compile();
if (wrong !== '') {
  console.log(wrong);
  process.exitCode = 1;
} else {
  makeEqual(folder, files);
  const dist = path.join(packageRoot, 'dist');
  makeEqual(dist, await bundle(folder, files, dist));
}
