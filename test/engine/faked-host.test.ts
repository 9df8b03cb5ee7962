import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

it.each(['native', 'javascript'])(
  'the %s engine works while timers, ticks, microtasks and the clock are faked, and afterwards',
  async (engine) => {
    const { stdout, stderr } = await runProgram('faked-host.mjs', [engine]);
    expect({ stdout: stdout.trim(), stderr }).toEqual({ stdout: 'ok', stderr: '' });
  },
);
