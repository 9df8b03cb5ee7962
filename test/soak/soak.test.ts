import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { runNode } from '../support/programs.js';

const script = (name: string): string => fileURLToPath(new URL(`../scripts/${name}`, import.meta.url));

for (const engine of ['native', 'javascript']) {
  it(`eight threads mix sync and async on one stripe of the ${engine} engine without loss or starvation`, async () => {
    const { code, stdout, stderr } = await runNode([
      script('soak-mixed.mjs'),
      '--seconds',
      '3',
      '--engine',
      engine,
    ]);
    console.log(stdout);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
}

it('dying threads, deadlocks, timeouts, aborts and misuse, all at once, wedge nothing', async () => {
  // 4 seconds, and the ends of threads that by then are on their way.
  const { code, stdout, stderr } = await runNode([script('soak.mjs'), '--minutes', String(4 / 60)], 55_000);
  console.log(stdout);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});
