import { Mutex } from 'async-mutex';

/** Not keyed, so only what one key needs. One event loop. */
export function asyncMutex() {
  const mutex = new Mutex();
  return {
    name: 'async-mutex',
    async: async () => (await mutex.acquire())(),
  };
}
