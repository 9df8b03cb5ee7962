import { measureClients } from './clients.mjs';
import { measureHandOff } from './hand-off.mjs';
import { measureSingle } from './single.mjs';
import { measureThreads } from './threads.mjs';
import { measureWaiters } from './waiters.mjs';

/**
 * Each measures one round of one subject and resolves to its figures, by metric (see metrics.mjs); rejects where the
 * subject fails or a count is wrong.
 *
 * @type {Record<string, (workload, subject, effort, iterationsPerNanosecond: number) => Promise<Record<string, number>>>}
 */
export const runners = {
  single: measureSingle,
  threads: measureThreads,
  'hand-off': measureHandOff,
  waiters: measureWaiters,
  clients: measureClients,
};
