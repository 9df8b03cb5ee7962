import { measureClients } from './clients.mjs';
import { measureDeadHolder } from './dead-holder.mjs';
import { measureHandOver } from './hand-over.mjs';
import { measureProcesses } from './processes.mjs';
import { measureSingle } from './single.mjs';
import { measureStarts } from './starts.mjs';
import { measureThreads } from './threads.mjs';
import { measureWaiters } from './waiters.mjs';

/**
 * For each metric, see `metrics.mjs`. Undefined if there is none.
 *
 * @typedef {Record<string, number | undefined>} Figures
 */

/**
 * @template W
 * @callback Runner
 * @param {W} workload
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {import('../effort.mjs').Effort} effort
 * @param {number} iterationsPerNanosecond Of `busy`.
 * @returns {Promise<Figures>} Rejects if the subject fails or a count is wrong.
 */

/**
 * Each measures one round of one subject. A workload says which of them measures it.
 *
 * @type {Record<import('../workloads/index.mjs').Workload['runner'], Runner<any>>}
 */
export const runners = {
  single: measureSingle,
  threads: measureThreads,
  'hand-over': measureHandOver,
  starts: measureStarts,
  waiters: measureWaiters,
  clients: measureClients,
  'dead-holder': measureDeadHolder,
  processes: measureProcesses,
};
