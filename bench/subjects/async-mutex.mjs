import { createRequire } from 'node:module';

// Its CommonJS build. The build for `import` uses generators, and took four times as long.
const { Mutex } = createRequire(import.meta.url)('async-mutex');

/**
 * Not keyed: one mutex, for workloads with one key. Its own `cancel()` ends all waits at once, which is not the
 * cancellation of one of them.
 *
 * @type {import('./index.mjs').Subject}
 */
export const asyncMutex = {
  name: 'async-mutex',
  packages: ['async-mutex'],
  can: ['acquire', 'run'],
  limit: ({ keys }) => (keys > 1 ? 'is not keyed' : undefined),
  create: () => undefined,
  open: () => {
    const mutex = new Mutex();
    return {
      acquire: () => mutex.acquire(),
      release: (release) => release(),
      run: (_key, section) => mutex.runExclusive(section),
    };
  },
};
