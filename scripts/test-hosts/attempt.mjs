// Runs one check in a separate process.

import { ended } from '../run.mjs';

/** Milliseconds. The slowest check waits for many leases to expire, and takes ten seconds on an idle machine. */
const limit = 60_000;

/**
 * Runs one check. Resolves to undefined if it passes, otherwise to the reason why not.
 *
 * @param {readonly string[]} command
 * @param {string} main
 * @param {string} name
 * @returns {Promise<string | undefined>}
 */
export async function attempt(command, main, name) {
  const env = { ...process.env, NO_COLOR: '1' };
  const { end, stdout, stderr } = await ended([...command, main, name], {
    timeout: limit,
    killSignal: 'SIGKILL',
    env,
  });
  if (end === 0 && stdout.trim() === 'passed') return undefined;
  return /^failed: (.*)$/m.exec(stdout)?.[1] ?? `ended with ${end}: ${stdout}${stderr}`.trim();
}
