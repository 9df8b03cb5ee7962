// What the checks share.

import { Worker } from 'node:worker_threads';

/** Milliseconds for what has no reason to take long. A busy machine must not make a check fail. */
export const patience = 20_000;

/**
 * How a check ends: `byItself` if the process must end without `process.exit()`, `warned` if a warning of the package
 * must have come, which matches.
 *
 * @type {{ byItself: boolean, warned: RegExp | undefined }}
 */
export const finished = { byItself: false, warned: undefined };

/**
 * @param {boolean} holds
 * @param {string} what The message if it does not hold.
 * @returns {asserts holds}
 */
export function check(holds, what) {
  if (!holds) throw new Error(what);
}

/**
 * The code of the error that `run` throws or rejects with; undefined if it does not fail.
 *
 * @param {() => unknown} run
 */
export async function codeOf(run) {
  try {
    await run();
    return undefined;
  } catch (error) {
    return /** @type {{ code?: unknown, message: string }} */ (error).code ?? String(error);
  }
}

/**
 * A worker that does one of the parts in `worker.mjs`, and a function for its next message.
 *
 * @param {keyof typeof import('./worker.mjs').parts} part
 * @param {object} data
 */
export function start(part, data) {
  const worker = new Worker(new URL('worker.mjs', import.meta.url), { workerData: { part, ...data } });
  /** @type {unknown[]} */
  const arrived = [];
  /** @type {{ resolve(message: unknown): void, reject(error: unknown): void } | undefined} */
  let waiting;
  /** @type {unknown} */
  let failure;
  worker.on('message', (message) => {
    if (waiting) waiting.resolve(message);
    else arrived.push(message);
    waiting = undefined;
  });
  worker.on('error', (error) => {
    failure = error;
    waiting?.reject(error);
  });
  const exited = new Promise((resolve) => worker.once('exit', resolve));
  const message = () =>
    new Promise((resolve, reject) => {
      if (failure !== undefined) reject(failure);
      else if (arrived.length > 0) resolve(arrived.shift());
      else waiting = { resolve, reject };
    });
  return { worker, message, exited };
}

/**
 * Waits until the condition holds. Throws after `limit` milliseconds.
 *
 * @param {() => boolean} condition
 * @param {string} what The message if it never holds.
 * @param {number} [limit]
 */
export async function until(condition, what, limit = patience) {
  const end = performance.now() + limit;
  while (!condition()) {
    check(performance.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
