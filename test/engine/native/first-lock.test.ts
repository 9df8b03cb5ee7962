import { expect, it } from 'vitest';
import { copyForTest } from '../../support/package-copy.js';
import { runProgram } from '../../support/programs.js';

it('the first lock of a thread makes no report and looks at no libc where the compiled addon loads', async () => {
  const { code, stdout, stderr } = await runProgram('no-look-at-libc.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const own = { engine: 'native', looks: [] };
  expect(JSON.parse(stdout)).toEqual([own, own]);
});

it.runIf(process.platform === 'linux')(
  'the first lock of a thread looks at the libc once where a prebuilt binary must be chosen, and makes no report',
  async () => {
    const { code, stdout } = await runProgram('no-look-at-libc.mjs', [await copyForTest()]);
    expect(code).toBe(0);
    const own = { engine: 'javascript', looks: ['openSync /proc/self/exe'] };
    expect(JSON.parse(stdout)).toEqual([own, own]);
  },
);

it('the first lock of a thread has the loader find no file, leaves the binary where a later search finds it, and needs no cryptography', async () => {
  const { code, stdout, stderr } = await runProgram('no-look-up.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const own = { looks: [], binaries: ['stripelock.node'], again: ['ERR_INVALID_ARG_TYPE'], crypto: false };
  expect(JSON.parse(stdout)).toEqual([own, own]);
});
