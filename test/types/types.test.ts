import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runNode } from '../support/programs.js';

it('the public types say what the contract says, and refuse what it refuses', async () => {
  const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
  const tsc = path('../../node_modules/typescript/bin/tsc');
  // A busy machine may take long.
  const { code, stdout } = await runNode([tsc, '--noEmit', '-p', path('tsconfig.json')], 55_000);
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
});
