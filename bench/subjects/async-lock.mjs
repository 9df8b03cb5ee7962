// @ts-expect-error It has no types.
import AsyncLock from 'async-lock';

/** @type {import('./index.mjs').Subject} */
export const asyncLock = {
  name: 'async-lock',
  packages: ['async-lock'],
  can: ['run', 'many'],
  create: () => undefined,
  open: () => {
    // It refuses more than 1000 waiters of a key.
    const lock = new AsyncLock({ maxPending: Infinity });
    return {
      run: (key, section) => lock.acquire(key, section),
      runMany: (keys, section) => lock.acquire(keys, section),
    };
  },
};
