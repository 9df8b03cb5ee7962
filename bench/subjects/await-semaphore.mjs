import { createRequire } from 'node:module';

const { Mutex } = createRequire(import.meta.url)('await-semaphore');

/**
 * Not keyed: one mutex, for workloads with one key.
 *
 * @type {import('./index.mjs').Subject}
 */
export const awaitSemaphore = {
  name: 'await-semaphore',
  packages: ['await-semaphore'],
  can: ['acquire', 'run'],
  limit: ({ keys }) => (keys > 1 ? 'is not keyed' : undefined),
  create: () => undefined,
  open: () => {
    const mutex = new Mutex();
    return {
      acquire: () => mutex.acquire(),
      release: (release) => release(),
      run: (_key, section) => mutex.use(section),
    };
  },
};
