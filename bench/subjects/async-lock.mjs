import AsyncLock from 'async-lock';

/** One event loop. */
export function asyncLock() {
  const lock = new AsyncLock();
  const nothing = () => Promise.resolve();
  return {
    name: 'async-lock',
    async: (key) => lock.acquire(key, nothing),
    asyncMany: (keys) => lock.acquire(keys, nothing),
  };
}
