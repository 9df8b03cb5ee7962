// Colours and shapes of the charts. All have a contrast of at least 3 : 1, which graphics need, both on white and on
// the usual dark backgrounds. So one file works for both. No two subjects of a chart share both shape and hue.

/** For text: 4.3 : 1 on white and on #0d1117 alike. */
export const INK = '#7a7f87';
export const RULE = '#7a7f8740';

/**
 * The color of each subject; floors share one.
 *
 * @type {Record<string, { color: string, shape: string }>}
 */
export const LOOKS = {
  'stripelock native': { color: '#2f81f7', shape: 'circle' },
  'KeyedLock native': { color: '#5a8f29', shape: 'circle' },
  'stripelock javascript': { color: '#1a9b8a', shape: 'square' },
  'Atomics mutex': { color: '#d2691e', shape: 'diamond' },
  'async-mutex': { color: '#c2478f', shape: 'triangle-up' },
  'queue of promises': { color: '#5f8f2f', shape: 'triangle-left' },
  'await-semaphore': { color: '#b8860b', shape: 'circle' },
  'async-lock': { color: '#9a6fdb', shape: 'triangle-down' },
  'Node locks': { color: '#d64550', shape: 'cross' },
  'web-locks': { color: '#8a7a1f', shape: 'triangle-right' },
  'stripelock web locks': { color: '#2f81f7', shape: 'circle' },
  'stripelock over Redis': { color: '#2f81f7', shape: 'circle' },
  'stripelock over Redis, store alone': { color: '#2f81f7', shape: 'triangle-up' },
  'stripelock over SQLite': { color: '#1a9b8a', shape: 'square' },
  'stripelock over SQLite, store alone': { color: '#1a9b8a', shape: 'diamond' },
  'stripelock over PostgreSQL': { color: '#9a6fdb', shape: 'circle' },
  'stripelock over PostgreSQL, store alone': { color: '#9a6fdb', shape: 'triangle-up' },
  'stripelock over MySQL, mysql2': { color: '#b8860b', shape: 'circle' },
  'stripelock over MySQL, mariadb': { color: '#1a9b8a', shape: 'square' },
  'stripelock over MySQL, store alone': { color: '#b8860b', shape: 'triangle-up' },
  'stripelock over MongoDB': { color: '#5a8f29', shape: 'circle' },
  'stripelock over MongoDB, store alone': { color: '#5a8f29', shape: 'triangle-up' },
  'stripelock over etcd': { color: '#c2478f', shape: 'circle' },
  'stripelock over etcd, store alone': { color: '#c2478f', shape: 'triangle-up' },
  etcd3: { color: '#b8860b', shape: 'diamond' },
  'stripelock over Redis, permits': { color: '#2f81f7', shape: 'square' },
  'redis-semaphore': { color: '#c2478f', shape: 'triangle-down' },
  'redis-semaphore, retries after 1 ms': { color: '#8a7a1f', shape: 'triangle-right' },
  redlock: { color: '#d2691e', shape: 'diamond' },
  'redlock, retries after 0 to 2 ms': { color: '#d64550', shape: 'cross' },
  floor: { color: '#7a7f87', shape: 'M-0.2,-1H0.2V1H-0.2Z' },
};
