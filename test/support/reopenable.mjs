/**
 * A memory store as one outside the process that another thread can open.
 *
 * @param {import('stripelock').MemoryLeaseStore} store
 * @returns {import('stripelock').ReopenableLeaseStore}
 */
export function reopenable(store) {
  const control = new SharedArrayBuffer(20);
  const module = new URL('../workers/reopened-store.mjs', import.meta.url);
  return { ...polled(store), source: { module, name: 'open', options: { handle: store.handle, control } } };
}

/**
 * Asks the store without its queues, as with any other store.
 *
 * @param {import('stripelock').MemoryLeaseStore} store
 * @returns {import('stripelock').ExactLeaseStore}
 */
export function polled(store) {
  return {
    tryAcquire: (...args) => store.tryAcquire(...args),
    renew: (...args) => store.renew(...args),
    keep: (...args) => store.keep(...args),
    release: (...args) => store.release(...args),
    inspect: (...args) => store.inspect(...args),
  };
}
