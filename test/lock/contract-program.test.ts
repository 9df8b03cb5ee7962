import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

// The script that runs the suite on other versions of Node runs this program there.
for (const args of [[], ['native'], ['javascript']]) {
  it(`a program written from the contract alone runs, engine: ${args[0] ?? 'default'}`, async () => {
    const { code, stdout, stderr } = await runProgram('contract-program.mjs', args);
    // require() of an ES module warns on some versions.
    const warnings = stderr
      .split('\n')
      .filter((line) => !/ExperimentalWarning|--trace-warnings|^$/.test(line));
    expect({ code, warnings, stdout }).toEqual({ code: 0, warnings: [], stdout: 'the contract holds\n' });
  });
}
