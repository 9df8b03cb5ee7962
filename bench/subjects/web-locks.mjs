import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);

/**
 * Its shared mode excludes like the exclusive one, and its requests with a signal throw with Node's AbortSignal. So
 * neither ability is listed.
 *
 * @type {import('./index.mjs').Subject}
 */
export const webLocksPackage = {
  name: 'web-locks',
  packages: ['web-locks'],
  can: ['run', 'threads'],
  limit: ({ needs }) =>
    needs.includes('threads') ? 'shares locks only by messages that the main thread relays' : undefined,
  create: () => undefined,
  open: () => {
    // Loaded when it is first needed, because loading it keeps a worker's event loop alive for ever.
    /** @type {{ locks: { request(key: string, section: () => unknown): Promise<unknown> } }} */
    const { locks } = load('web-locks');
    return { run: (key, section) => locks.request(key, section) };
  },
};
