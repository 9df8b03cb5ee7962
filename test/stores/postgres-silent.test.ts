import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

// A process that does not end by itself is killed, which its exit code shows.
it('the process ends when a PostgreSQL store is closed whose server never answers the session that listens', async () => {
  const { code, stdout, stderr } = await runProgram('postgres-silent.mjs', []);
  expect({ code, stderr, stdout: stdout.trim() }).toEqual({ code: 0, stderr: '', stdout: 'closed' });
}, 60_000);
