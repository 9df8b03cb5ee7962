import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

describe.each(['native', 'javascript'])('a traced lock, %s engine', (engine) => {
  it.each([
    ['as it is', []],
    ['under source maps', ['--enable-source-maps']],
    ['with frozen intrinsics', ['--frozen-intrinsics', '--no-warnings']],
  ])('names the line of the program that acquired, %s', async (_how, nodeOptions) => {
    const { code, stderr } = await runProgram('traced-places.mjs', [engine], nodeOptions);
    expect(stderr).toBe('');
    expect(code).toBe(0);
  });
});
