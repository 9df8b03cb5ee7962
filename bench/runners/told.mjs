/**
 * The message of this name of a worker, or of a child process; subjects may send messages of their own. Rejects if it fails,
 * or ends without sending it.
 *
 * @param {import('node:events').EventEmitter} worker
 * @param {string} name
 * @returns {Promise<any>}
 */
export function told(worker, name) {
  return new Promise((resolve, reject) => {
    const listeners = {
      message: (/** @type {any} */ message) => {
        if (message !== null && Object.hasOwn(message, name)) settle(resolve, message[name]);
      },
      error: (/** @type {Error} */ error) => settle(reject, error),
      exit: () => settle(reject, new Error('it ended in the middle of its work')),
    };
    const settle = (/** @type {(value: any) => void} */ how, /** @type {unknown} */ value) => {
      for (const [event, listener] of Object.entries(listeners)) worker.off(event, listener);
      how(value);
    };
    for (const [event, listener] of Object.entries(listeners)) worker.on(event, listener);
  });
}
