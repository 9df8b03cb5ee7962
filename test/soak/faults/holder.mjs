// A process that takes leases, counts under them, and writes down what happened. Its argument contains its settings.
// The counters are at the other end of its IPC channel.

import { LeaseManager } from 'stripelock';
import { setTimeout as delay } from 'node:timers/promises';
import { below, randomFrom } from '../../workers/random.mjs';
import { now } from './clock.mjs';
import { History } from './history.mjs';
import { plant } from './planted.mjs';
import { loadStore } from './store-faults.mjs';

/** @typedef {import('stripelock').LeaseStore} LeaseStore */

/** @type {import('./process.mjs').Settings} */
const settings = JSON.parse(process.argv[2]);
const { name, seed, keys, together, least, ttl, renew, steps, step, gap, blockFor, waiters } = settings;
const { background, maxHold, limit, shared, relay } = settings;
const history = new History(settings.history, name);
const random = randomFrom(seed);
let stopping = false;

process.on('disconnect', () => process.exit());
process.on('unhandledRejection', (error) => {
  history.add({ op: 'crashed', error: String(/** @type {Error | undefined} */ (error)?.stack) });
  process.exit(1);
});

/** @type {Map<number, (result: any) => void>} */
const answers = new Map();
let asked = 0;
process.on('message', (/** @type {any} */ message) => {
  if (message === 'stop') stopping = true;
  else answers.get(message.id)?.(message.result);
});
/**
 * @param {{ op: 'read' | 'write', key: string, token: bigint, value?: number }} request
 * @returns {Promise<any>}
 */
function ask(request) {
  const id = ++asked;
  process.send?.({ ...request, token: String(request.token), id });
  return new Promise((resolve) => answers.set(id, resolve)).finally(() => answers.delete(id));
}

/**
 * Delays the replies of a store that this process does not reach by a port, where a proxy would delay them.
 *
 * @param {LeaseStore} store
 * @param {number} milliseconds
 * @returns {LeaseStore}
 */
function delayReplies(store, milliseconds) {
  /** @type {LeaseStore['tryAcquire']} */
  const tryAcquire = async (...request) => {
    const token = await store.tryAcquire(...request);
    await delay(milliseconds);
    return token;
  };
  const rest = {
    renew: store.renew.bind(store),
    release: store.release.bind(store),
    inspect: store.inspect.bind(store),
  };
  return { ...rest, tryAcquire };
}

/**
 * What it holds, and under which tokens: of a key with a limit, the slot, which has separate tokens.
 *
 * @param {import('stripelock').Lease} lease
 */
const tokensOf = ({ tokens, slot }) =>
  limit === 1
    ? [...tokens]
    : [...tokens].map(([key, token]) => /** @type {const} */ ([`slot ${slot} of ${key}`, token]));

/**
 * Whether the lease was certainly held at a moment that has just passed.
 *
 * @param {import('stripelock').Lease} lease
 * @param {number} at
 */
function isHeld(lease, at) {
  const { held } = lease;
  if (held) for (const [key, token] of tokensOf(lease)) history.add({ op: 'held', key, token, at });
  return held;
}

/**
 * Whether the resource accepted that the key counts up.
 *
 * @param {string} key
 * @param {bigint} token
 */
async function count(key, token) {
  const value = await ask({ op: 'read', key, token });
  const accepted = value !== undefined && (await ask({ op: 'write', key, token, value: value + 1 }));
  if (accepted) history.add({ op: 'write', key, token, value: value + 1 });
  else history.add({ op: 'refused', key, token });
  return accepted;
}

/** @param {import('stripelock').Lease} lease */
async function countUnder(lease) {
  for (let i = 0; i < steps; i++) {
    for (const [key, token] of tokensOf(lease)) {
      if (!isHeld(lease, now()) || !(await count(key, token))) return;
    }
    if (blockFor > 0 && below(random, 4) === 0) {
      const milliseconds = below(random, blockFor);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
      const at = now();
      const still = isHeld(lease, at);
      for (const [key, token] of tokensOf(lease)) {
        history.add({ op: 'blocked', key, token, at, for: milliseconds, still });
      }
    }
    if (!isHeld(lease, now())) return;
    await delay(below(random, 2 * step));
    isHeld(lease, now());
  }
}

/** @param {import('stripelock').Lease} lease */
async function lookUnder(lease) {
  for (let i = 0; i < steps; i++) {
    for (const [key, token] of tokensOf(lease)) {
      if (!isHeld(lease, now()) || (await ask({ op: 'read', key, token })) === undefined) return;
    }
    await delay(below(random, 2 * step));
    isHeld(lease, now());
  }
}

/** Some of the keys, in any order. */
function someKeys() {
  const left = [...keys];
  const wanted = least + below(random, together - least + 1);
  return Array.from({ length: wanted }, () => left.splice(below(random, left.length), 1)[0]);
}

/**
 * A lease of some of the keys, or undefined if it was refused or failed.
 *
 * @param {LeaseManager} manager
 * @param {number} [timeout] If it is not given, the lease is not waited for.
 */
async function take(manager, timeout) {
  const chosen = someKeys();
  const isShared = random() < shared;
  /** @type {{ limit: number, mode: 'shared' | 'exclusive' }} */
  const options = { limit, mode: isShared ? 'shared' : 'exclusive' };
  const call = now();
  let lease;
  try {
    lease =
      timeout === undefined
        ? await manager.tryAcquire(chosen, options)
        : await manager.acquire(chosen, { ...options, timeout });
  } catch (error) {
    const late = now() - call;
    const { code, cause } = /** @type {any} */ (error);
    history.add({ op: 'failed', key: chosen.join(), code, cause: cause?.message, call, late });
  }
  if (lease === undefined) return undefined;
  const granted = now();
  if (lease.slot >= limit) throw new RangeError(`slot ${lease.slot} of ${limit}`);
  const tokens = tokensOf(lease);
  // A lease of several keys does not show which of them was abandoned.
  const abandoned = tokens.length === 1 ? lease.abandoned : undefined;
  for (const [key, token] of tokens)
    history.add({ op: 'acquire', key, token, call, return: granted, abandoned, ttl, shared: isShared });
  return lease;
}

/** @param {import('stripelock').Lease} lease */
async function free(lease) {
  const tokens = tokensOf(lease);
  const asked = now();
  for (const [key, token] of tokens) history.add({ op: 'leave', key, token, at: asked });
  const freed = await lease.release().catch((/** @type {NodeJS.ErrnoException} */ error) => error.code);
  const released = now();
  for (const [key, token] of tokens) {
    history.add({ op: 'release', key, token, call: asked, return: released, freed });
  }
}

/**
 * @param {LeaseManager} manager
 * @param {number} timeout
 */
async function turn(manager, timeout) {
  let lease = await take(manager, timeout);
  while (lease !== undefined) {
    await (lease.mode === 'shared' ? lookUnder(lease) : countUnder(lease));
    const next = relay && !stopping ? await take(manager) : undefined;
    await free(lease);
    lease = next;
  }
}

const opened = await (await loadStore(settings.store)).open(settings);
/** @type {import('stripelock').LeaseManagerOptions['clock']} */
let clock;
/** @type {LeaseStore} */
let store = opened.store;
if (settings.delay > 0) store = delayReplies(store, settings.delay);
if (settings.plant) ({ store, clock } = plant(settings.plant, store, opened.backdoor));
const manager = new LeaseManager({
  store,
  ttl,
  renew: background ? { background } : renew,
  ...(background && { maxHold }),
  backoff: { initial: 5, max: settings.backoff },
  ...(clock && { clock }),
});
process.send?.({ ready: true });

if (waiters > 0) {
  await Promise.all(Array.from({ length: waiters }, () => turn(manager, settings.patience)));
} else {
  while (!stopping) {
    await turn(manager, settings.patience);
    await delay(below(random, 2 * gap));
  }
}
await manager.close().catch(() => undefined);
await opened.store.close?.();
opened.close();
process.disconnect?.();
