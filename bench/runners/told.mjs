import { once } from 'node:events';

/** What a worker tells by this name; subjects may send messages of their own. Rejects when the worker fails. */
export async function told(worker, name) {
  for (;;) {
    const [message] = await once(worker, 'message');
    if (message !== null && Object.hasOwn(message, name)) return message[name];
  }
}
