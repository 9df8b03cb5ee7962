import { StripedLock } from 'stripelock';

export function stripelock(engine) {
  const lock = new StripedLock({ engine });
  return {
    name: `stripelock ${engine}`,
    sync: (key) => lock.acquireSync(key).release(),
    syncMany: (keys) => lock.acquireSync(keys).release(),
    async: async (key) => (await lock.acquire(key)).release(),
    asyncMany: async (keys) => (await lock.acquire(keys)).release(),
  };
}
