/**
 * What the worker tells by this name; subjects may send messages of their own. Rejects when the worker fails, or ends
 * without having told it.
 */
export function told(worker, name) {
  return new Promise((resolve, reject) => {
    const listeners = {
      message: (message) => {
        if (message !== null && Object.hasOwn(message, name)) settle(resolve, message[name]);
      },
      error: (error) => settle(reject, error),
      exit: () => settle(reject, new Error('a thread ended in the middle of its work')),
    };
    const settle = (how, value) => {
      for (const [event, listener] of Object.entries(listeners)) worker.off(event, listener);
      how(value);
    };
    for (const [event, listener] of Object.entries(listeners)) worker.on(event, listener);
  });
}
