import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { redisLibraries } from './redis-setup.js';

// A process that does not end by itself is killed, which its exit code shows.
it.each(redisLibraries)(
  'the process ends when everything is closed, even if the server went away while an acquisition waited: %s',
  async (name) => {
    const { code, stdout, stderr } = await runProgram('redis-gone.mjs', [name]);
    expect({ code, stderr, stdout: stdout.trim() }).toEqual({
      code: 0,
      stderr: '',
      stdout: 'ERR_LOCK_TIMEOUT',
    });
  },
  60_000,
);
