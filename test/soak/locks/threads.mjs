import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/**
 * Runs a script of `test/workers` in a thread, up to its end. Resolves to the one message that it posts.
 *
 * @param {string} script
 * @param {unknown} workerData
 * @returns {Promise<any>}
 */
export async function runThread(script, workerData) {
  const worker = new Worker(new URL(`../../workers/${script}`, import.meta.url), { workerData });
  /** @type {unknown[]} */
  const messages = [];
  worker.on('message', (message) => messages.push(message));
  const [code] = await once(worker, 'exit');
  if (code !== 0 || messages.length !== 1) {
    throw new Error(`${script} ended with code ${code} after ${messages.length} messages`);
  }
  return messages[0];
}

/** @param {number} count */
export function sharedInts(count) {
  return new SharedArrayBuffer(4 * count);
}

/**
 * String keys on as many different stripes, in the order of their stripes.
 *
 * @param {import('stripelock').StripedLock} lock
 * @param {number} count
 */
export function keysApart(lock, count) {
  const byStripe = new Map();
  for (let i = 0; byStripe.size < count; i++) {
    const stripe = lock.stripeOf(`apart-${i}`);
    if (!byStripe.has(stripe)) byStripe.set(stripe, `apart-${i}`);
  }
  return [...byStripe].sort(([a], [b]) => a - b).map(([, key]) => key);
}
