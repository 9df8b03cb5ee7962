// @ts-check
/** Applies the whole file of transfers with a pool of threads. */
import { Piscina } from 'piscina';
import { chunks } from './transfers.mjs';

/** Some milliseconds of work: fine enough for a smooth bar, coarse enough for messages to cost nothing. */
const TRANSFERS_A_CHUNK = 4_096;

/**
 * @param {{ workers: number; transfers: number }} options
 * @param {import('./worker.mjs').WorkerData} workerData
 * @param {(applied: number) => void} onProgress Called with the number of transfers applied so far.
 * @returns {Promise<number>} The seconds it took. Rejects when any chunk fails. The threads have ended either way.
 */
export async function applyWithPool({ workers, transfers }, workerData, onProgress) {
  const pool = new Piscina({
    filename: new URL('./worker.mjs', import.meta.url).href,
    minThreads: workers,
    maxThreads: workers,
    workerData,
  });
  try {
    const started = performance.now();
    let applied = 0;
    const runs = Array.from(chunks(transfers, TRANSFERS_A_CHUNK), async (chunk) => {
      const count = /** @type {number} */ (await pool.run(chunk));
      // Not `applied += await …`, which would read `applied` before the wait.
      applied += count;
      onProgress(applied);
    });
    await Promise.all(runs);
    return (performance.now() - started) / 1000;
  } finally {
    await pool.destroy();
  }
}
