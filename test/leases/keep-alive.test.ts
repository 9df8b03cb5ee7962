import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';

// Each scenario runs in a process of its own, in which nothing but leases can keep the event loop alive. If the process
// does not end by itself, it is killed, which its exit code shows.
it.each([
  ['held leases', 'held'],
  ['held leases that another thread renews', 'held'],
  ['held leases in memory that another thread renews', 'held'],
  ['another thread must start first', 'held'],
  ['released by a thread', 'granted'],
  ['expired after its thread ended', 'granted'],
  ['polling', 'granted'],
  ['timeout', 'ERR_LOCK_TIMEOUT'],
  ['timeouts that take longer than a turn of the event loop', '5 ERR_LOCK_TIMEOUT'],
  ['nothing rejects unhandled', 'AbortError\nran'],
])('the process lives for as long as an acquisition waits, and no longer: %s', async (scenario, output) => {
  const { code, stdout, stderr } = await runProgram('lease-keep-alive.mjs', [scenario]);
  expect({ code, stderr, stdout: stdout.trim() }).toEqual({ code: 0, stderr: '', stdout: output });
});
