// One round of one subject, in a separate process: what one subject does to the optimizer, the heap and the memory must
// not slow another. `schedule.mjs` starts it and receives the figures as a message.

import { efforts } from './effort.mjs';
import { runners } from './runners/index.mjs';
import { subjectNamed } from './subjects/index.mjs';
import { workloadNamed } from './workloads/index.mjs';

/**
 * @typedef {object} Request
 * @property {string} workload Its name.
 * @property {string} subject Its name.
 * @property {import('./effort.mjs').Effort['name']} effort
 * @property {number} iterationsPerNanosecond
 *
 * @typedef {object} Reply
 * @property {string} [error] Undefined if all went well.
 * @property {import('./runners/index.mjs').Figures} [figures] Also of one that miscounted.
 */

process.once('message', async (/** @type {Request} */ request) => {
  /** @type {Reply} */
  let reply;
  try {
    reply = { figures: await measure(request) };
  } catch (error) {
    const { message, figures } = /** @type {Error & Pick<Reply, 'figures'>} */ (error);
    reply = { error: message, ...(figures && { figures }) };
  }
  process.send?.(reply, () => process.exit());
});

/** @param {Request} request */
function measure({ workload: name, subject, effort, iterationsPerNanosecond }) {
  /** @type {import('./workloads/index.mjs').Workload} */
  const workload = workloadNamed(name);
  return runners[workload.runner](workload, subjectNamed(subject), efforts[effort], iterationsPerNanosecond);
}
