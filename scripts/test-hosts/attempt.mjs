// Runs one check in a process of its own.

import { execFile } from 'node:child_process';

/** Milliseconds. The slowest check waits for many leases to expire, and takes ten seconds on an idle machine. */
const limit = 60_000;

/**
 * Runs one check. Resolves to undefined if it passes, otherwise to why not.
 *
 * @param {readonly string[]} command
 * @param {string} main
 * @param {string} name
 * @returns {Promise<string | undefined>}
 */
export function attempt([program = '', ...words], main, name) {
  return new Promise((resolve) => {
    const options = {
      timeout: limit,
      killSignal: /** @type {const} */ ('SIGKILL'),
      env: { ...process.env, NO_COLOR: '1' },
    };
    const child = execFile(program, [...words, main, name], options, (error, stdout, stderr) => {
      const said = /^failed: (.*)$/m.exec(stdout)?.[1];
      if (error === null && stdout.trim() === 'passed') resolve(undefined);
      else if (said !== undefined) resolve(said);
      else
        resolve(
          `ended with ${child.signalCode ?? child.exitCode ?? error?.message}: ${stdout}${stderr}`.trim(),
        );
    });
  });
}
