import { KeyedLock, LeaderElection, LeaseManager } from 'stripelock';
import { ProcessLock } from 'stripelock/process';
import { openLeaseStore } from './open-lease-store.mjs';

/**
 * Where a thread or process gets its locks: the options of a `KeyedLock` or its handle, the options of a `ProcessLock`, the
 * place of a store, or a store.
 *
 * @typedef {{ keyed: import('stripelock').KeyedLockOptions } | { handle: import('stripelock').KeyedLockHandle }
 *   | { file: import('stripelock/process').ProcessLockOptions } | { place: import('./open-lease-store.mjs').Place, name: string }
 *   | { store: import('stripelock').LeaseStore, name: string }} Ground
 */

/** Milliseconds. No lease expires in a test, unless it names another TTL. */
const TTL = 600_000;
/** Milliseconds for an operation of a store, on a busy machine. */
const TIMEOUT = 30_000;

/**
 * @param {Ground} ground
 * @returns {Promise<{ lock: any, close: () => unknown }>} `lock`: a `KeyedLock`, a `ProcessLock` or a `LeaseManager`.
 */
export async function openGround(ground) {
  if ('keyed' in ground) return { lock: new KeyedLock(ground.keyed), close: () => undefined };
  if ('handle' in ground) return { lock: KeyedLock.from(ground.handle), close: () => undefined };
  if ('file' in ground) {
    const lock = new ProcessLock(ground.file);
    return { lock, close: () => lock.close() };
  }
  const { store, close } =
    'store' in ground
      ? { store: ground.store, close: () => undefined }
      : await openLeaseStore(ground.place, TIMEOUT);
  const backoff = { initial: 5, max: 50 };
  const lock = new LeaseManager({ store, name: ground.name, ttl: TTL, backoff });
  return {
    lock,
    close: async () => {
      await lock.close();
      await close();
    },
  };
}

/** The actions of another thread or process on its lock, as functions by the name of the action. */
export function makeActions() {
  /** @type {any} */
  let lock;
  /** @type {any[]} */
  const held = [];
  const keep = (/** @type {any} */ hold) => {
    if (hold === undefined) return undefined;
    held.push(hold);
    // A lease of several keys has no single token.
    return { token: hold.keys.length === 1 ? hold.token : undefined, abandoned: hold.abandoned };
  };
  return {
    /** @param {Ground} ground */
    async open(ground) {
      ({ lock } = await openGround(ground));
    },
    /** @param {[keys: any, options?: object]} args */
    acquire: async (...args) => keep(await lock.acquire(...args)),
    /** @param {[keys: any, options?: object]} args */
    tryAcquire: async (...args) => keep(await lock.tryAcquire(...args)),
    async release() {
      for (const hold of held.splice(0)) await hold.release();
    },
    renew: () => held[0].renew(),
    /**
     * Resolves when this candidate leads.
     *
     * @param {string} name
     * @param {number} ttl
     */
    lead: (name, ttl) =>
      new Promise((resolve) => {
        new LeaderElection(lock, name, { ttl, onElected: () => resolve(undefined) }).start();
      }),
  };
}
