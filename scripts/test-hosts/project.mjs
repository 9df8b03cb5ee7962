// A project with the package installed in it, as built here.

import { cpSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { addonPath } from '../build-addon.mjs';
import { tracedProgram } from './traced.mjs';

const require = createRequire(import.meta.url);

/** @param {string} folder */
function installPackage(folder) {
  mkdirSync(path.join(folder, 'build/Release'), { recursive: true });
  cpSync(path.join(packageRoot, 'dist'), path.join(folder, 'dist'), { recursive: true });
  cpSync(path.join(packageRoot, 'package.json'), path.join(folder, 'package.json'));
  cpSync(addonPath, path.join(folder, 'build/Release/stripelock.node'));
}

/** Returns the folder of the project. The caller removes it. */
export function makeProject() {
  const project = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-hosts-')));
  const installed = path.join(project, 'node_modules');
  writeFileSync(
    path.join(project, 'package.json'),
    '{ "name": "user", "private": true, "type": "module" }\n',
  );
  for (const name of ['stripelock', 'other-stripelock']) installPackage(path.join(installed, name));
  const bindings = require.resolve('bindings/package.json');
  for (const manifest of [bindings, createRequire(bindings).resolve('file-uri-to-path/package.json')]) {
    const folder = path.dirname(manifest);
    cpSync(folder, path.join(installed, path.basename(folder)), { recursive: true, dereference: true });
  }
  const program = path.join(project, 'program');
  cpSync(new URL('program', import.meta.url), program, { recursive: true });
  for (const [name, text] of Object.entries(tracedProgram())) writeFileSync(path.join(program, name), text);
  return { project, main: path.join(program, 'main.mjs') };
}
