// The stores under faults: one file for each in `stores`, which says how to start it and what can go wrong there. Nothing
// else knows their names.

import { readdirSync } from 'node:fs';

/**
 * @typedef {import('./world.mjs').World} World
 * @typedef {import('./process.mjs').Settings} Settings
 * @typedef {import('stripelock').LeaseStore} LeaseStore
 */

/**
 * Faults of a broken store behind the back of a correct one; see `planted.mjs`.
 *
 * @typedef {object} Backdoor
 * @property {(key: string) => Promise<boolean>} remove Frees the key, whoever holds it. True if somebody did.
 * @property {(key: string) => Promise<bigint>} count The next of a counter that {@link Backend} forgets with the rest.
 */

/**
 * A store as a process has opened it.
 *
 * @typedef {object} Opened
 * @property {LeaseStore} store
 * @property {() => unknown} close Ends its connections; the store was closed before.
 * @property {() => Backdoor} backdoor Called only if a bug is planted.
 */

/**
 * Where the leases of one world are.
 *
 * @typedef {object} Backend
 * @property {unknown} place Where it is, as JSON, for `open` in other processes: their `settings.place`.
 * @property {number} [port] Of the server, before which a {@link Proxy} can stand. Processes connect to `settings.port`,
 *   which is this one or the proxy's.
 * @property {() => LeaseStore | Promise<LeaseStore>} connect A store in this process. `stop` ends it.
 * @property {() => Promise<unknown>} forget Loses all leases, tokens and counters.
 * @property {() => Promise<string[]>} leftovers What is there that should not be, a TTL after everybody has ended.
 * @property {(overlap: import('./checker.mjs').Overlap, requests: readonly string[]) => Promise<string | undefined>} [brokenPromise]
 *   How the server itself, as its records and those of all requests prove, ended the first hold before the time that it had
 *   promised. Undefined if that is not proven. `requests`: files.
 * @property {() => unknown} stop
 */

/**
 * @template {Backend} B
 * @typedef {Record<string, (world: World, backend: B) => Promise<unknown>>} Scenarios By what goes wrong in them.
 */

/**
 * The default export of a file of `stores`.
 *
 * @template {Backend} [B=any]
 * @typedef {object} StoreFaults
 * @property {string} title For tests.
 * @property {{ what: string, advice: string } | undefined} missing What it needs and does not find here.
 * @property {boolean} [recordsRequests] Whether processes write down their requests over HTTP, for `brokenPromise`.
 * @property {boolean} reopens Whether another thread can open the store again, where `settings.background` is set.
 * @property {boolean} [readsFirst] Whether an attempt is a read and a write, which is refused if the key has changed since.
 * @property {boolean} [losesReleases] Whether the server forgets the releases of its last moments when it is killed.
 * @property {number} [ttl] Milliseconds, of leases; default 300.
 * @property {(world: World) => Promise<B>} start
 * @property {(settings: Settings) => Promise<Opened>} open In a process that takes leases.
 * @property {Scenarios<B>} scenarios Of its own, besides those of `scenarios.mjs`.
 * @property {((world: World, backend: B) => unknown)[]} faults That come at random, besides those of `fuzz.mjs`.
 */

const files = readdirSync(new URL('stores', import.meta.url)).filter((name) => name.endsWith('.mjs'));

/** The names of all stores. */
export const storeNames = files.map((name) => name.slice(0, -'.mjs'.length)).sort();

/**
 * @param {string} name
 * @returns {Promise<StoreFaults>}
 * @throws {RangeError} If no such store exists.
 */
export async function loadStore(name) {
  if (!storeNames.includes(name)) throw new RangeError(`the stores are ${storeNames.join(', ')}`);
  const file = new URL(`stores/${name}.mjs`, import.meta.url);
  return (await import(/* @vite-ignore */ file.href)).default;
}
