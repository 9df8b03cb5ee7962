import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runNode } from './support/programs.js';

const SCRIPT = fileURLToPath(new URL('../scripts/soak-mixed.mjs', import.meta.url));

for (const engine of ['native', 'javascript']) {
  it(`eight threads mix sync and async on one stripe of the ${engine} engine without loss or starvation`, async () => {
    const { code, stdout, stderr } = await runNode([SCRIPT, '--seconds', '3', '--engine', engine]);
    console.log(stdout);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
}
