import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand } from '../support/redis-server.mjs';

// Where there is none, the contract tests say so.
const clients = redisCommand === undefined ? [] : Object.keys(redisClients);

// The process is killed, which the code shows, if it does not end by itself.
it.each(clients)(
  'the process ends when all is closed, though the server went away while an acquisition waited: %s',
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
