// Another thread or process with a lock: it does what messages ask for, and answers each.

import { parentPort } from 'node:worker_threads';
import { makeActions } from '../support/ground.mjs';

const actions = makeActions();
/** @type {{ on: Function, postMessage: (answer: object) => void }} */
const port = parentPort ?? {
  on: (...args) => process.on(...args),
  postMessage: (answer) => process.send?.(answer),
};

port.on('message', async ({ id, action, args }) => {
  let answer;
  try {
    answer = { id, result: await actions[action](...args) };
  } catch (error) {
    answer = { id, error: { code: error.code, message: String(error) } };
  }
  port.postMessage(answer);
});
// A process whose parent has died has no work.
if (parentPort === null) process.on('disconnect', () => process.exit());
