// A project with the package installed in it, as it would be published from what is built here.

import { cpSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';
import { installLocally, packLocally } from '../local-package.mjs';
import { tracedProgram } from './traced.mjs';

/** Returns the folder of the project, and the program to run. The caller removes the folder. */
export function makeProject() {
  const project = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-hosts-')));
  writeFileSync(
    path.join(project, 'package.json'),
    '{ "name": "user", "private": true, "type": "module" }\n',
  );
  const { folder } = packLocally(path.join(project, 'release'));
  installLocally(folder, project, ['stripelock', 'other-stripelock']);
  const program = path.join(project, 'program');
  cpSync(path.join(packageRoot, 'test/programs/hosts'), program, { recursive: true });
  for (const [name, text] of Object.entries(tracedProgram())) writeFileSync(path.join(program, name), text);
  return { project, main: path.join(program, 'main.mjs') };
}
