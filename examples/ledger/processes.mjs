// @ts-check
/** Applies the whole file of transfers with processes, which share a file of accounts and a `ProcessLock`. */
import { fork } from 'node:child_process';
import { once } from 'node:events';

/**
 * @typedef {object} ProcessData What a process is told.
 * @property {string} path The file of transfers.
 * @property {number} transfers
 * @property {string} accountsPath
 * @property {number} accounts
 * @property {number} processes
 * @property {number} index Which of them this one is, from 0.
 * @property {number} branches
 * @property {string | undefined} lockPath Absent: apply without a lock.
 */

/**
 * The key of the lock that an account belongs to. Not one for each account: the kernel goes through all locks of a file for
 * each that it takes, and an audit takes all.
 *
 * @param {number} account
 * @param {number} branches
 */
export const branchOf = (account, branches) => account % branches;

/**
 * @param {Omit<ProcessData, 'index'>} data
 * @param {(applied: number) => void} onProgress Called with the number of transfers applied so far.
 * @returns {Promise<number>} The seconds it took. Rejects when a process fails. All have ended either way.
 */
export async function applyWithProcesses(data, onProgress) {
  const started = performance.now();
  let applied = 0;
  const processes = Array.from({ length: data.processes }, (_, index) => {
    const child = fork(new URL('./process-worker.mjs', import.meta.url), [
      JSON.stringify({ ...data, index }),
    ]);
    child.on('message', (count) => {
      applied += Number(count);
      onProgress(applied);
    });
    return child;
  });
  const codes = await Promise.all(processes.map(async (child) => (await once(child, 'exit'))[0]));
  if (codes.some((code) => code !== 0)) throw new Error(`processes ended with ${codes.join(', ')}`);
  return (performance.now() - started) / 1000;
}
