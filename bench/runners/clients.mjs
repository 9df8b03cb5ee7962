// Clients of a store outside the process, each with its own connection, all in one event loop.

import { setTimeout as sleep } from 'node:timers/promises';
import { openLock } from '../subjects/index.mjs';
import { Waits } from '../support/waits.mjs';
import { Miscount } from './miscount.mjs';

/** @typedef {import('../subjects/index.mjs').Lock} Client */

/** This many times as long as in memory, where operations take a hundredth of the time. */
const LONGER = 4;
/** V8 compiles a function after a number of calls. */
const WARM_UP_LONGER = 20;
/** Milliseconds after which every client that may enter has entered. */
const ENTERS_IN = 50;

/**
 * One round of one subject. The wait is the time from asking to holding; for a single client, which never waits, it is
 * the time to acquire and release.
 *
 * @type {import('./index.mjs').Runner<import('../workloads/index.mjs').ClientsWorkload>}
 */
export async function measureClients(workload, subject, effort) {
  const shared = subject.create({ stripes: workload.stripes });
  /** @type {Client[]} */
  const clients = [];
  try {
    for (let i = 0; i < workload.clients; i++) clients.push(await openLock(subject, shared));
    if (clients.length === 1) return await measureAlone(workload, subject, effort, clients[0], shared);
    return await measureTogether(workload, effort, clients);
  } finally {
    for (const client of clients) await client.close?.();
    subject.destroy?.(shared);
  }
}

/**
 * @param {import('../workloads/index.mjs').ClientsWorkload} workload
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {import('../effort.mjs').Effort} effort
 * @param {Client} client
 * @param {unknown} shared
 */
async function measureAlone({ keys, limit }, subject, effort, client, shared) {
  const names = Array.from({ length: keys }, (_, i) => `job:${i}`);
  const waits = new Waits();
  let done = 0;
  const until = async (/** @type {number} */ end) => {
    for (let asked = performance.now(); asked < end;) {
      await client.release(await client.acquire(names[done++ % keys]));
      const now = performance.now();
      waits.record(now - asked);
      asked = now;
    }
  };
  await until(performance.now() + WARM_UP_LONGER * effort.warmup);
  [done] = [0, waits.reset()];
  const started = performance.now();
  await until(started + LONGER * effort.window);
  const seconds = (performance.now() - started) / 1000;
  if (subject.excludes !== false) await prove(subject, shared, client, limit);
  return { opsPerSecond: done / seconds, ...waits.percentiles() };
}

/**
 * Checks that one acquisition more than allowed does not succeed: a single client counts correctly even without a lock.
 *
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {unknown} shared
 * @param {Client} client
 * @param {number} limit
 */
async function prove(subject, shared, client, limit) {
  const held = await client.acquire('proof');
  const more = await Promise.all(Array.from({ length: limit - 1 }, () => openLock(subject, shared)));
  const alsoHeld = await Promise.all(more.map((permitted) => permitted.acquire('proof')));
  const other = await openLock(subject, shared);
  let entered = false;
  const enters = other.acquire('proof').then(
    (second) => ((entered = true), other.release(second)),
    (error) => error,
  );
  await sleep(ENTERS_IN);
  const wrong = entered;
  await client.release(held);
  await enters;
  await Promise.all(more.map((permitted, i) => permitted.release(alsoHeld[i])));
  for (const opened of [other, ...more]) await opened.close?.();
  if (wrong) throw new Error('let one more in than allowed');
}

/**
 * @param {import('../workloads/index.mjs').ClientsWorkload} workload
 * @param {import('../effort.mjs').Effort} effort
 * @param {readonly Client[]} clients
 */
async function measureTogether({ again, limit }, effort, clients) {
  const row = { begun: 0, ended: 0, torn: false };
  const counts = clients.map(() => 0);
  const waits = new Waits();
  const once = async (/** @type {Client} */ client, /** @type {number} */ i) => {
    const asked = performance.now();
    const held = await client.acquire('job');
    waits.record(performance.now() - asked);
    if (row.begun - row.ended >= limit) row.torn = true;
    row.begun++;
    // One turn of the event loop, in which messages from the other clients arrive.
    await new Promise((resolve) => setImmediate(resolve));
    row.ended++;
    counts[i]++;
    await client.release(held);
  };
  const everybody = again
    ? (/** @type {number} */ until) =>
        Promise.all(
          clients.map(async (client, i) => {
            while (performance.now() < until) await once(client, i);
          }),
        )
    : async (/** @type {number} */ until) => {
        do await Promise.all(clients.map(once));
        while (performance.now() < until);
      };
  await everybody(performance.now() + WARM_UP_LONGER * effort.warmup);
  waits.reset();
  const before = [...counts];
  const started = performance.now();
  await everybody(started + LONGER * effort.window);
  const seconds = (performance.now() - started) / 1000;
  const done = counts.map((count, i) => count - before[i]);
  const total = done.reduce((a, b) => a + b, 0);
  const figures = {
    opsPerSecond: total / seconds,
    ...waits.percentiles(),
    ...(again && { minShare: (Math.min(...done) * clients.length) / total }),
  };
  const counted = counts.reduce((a, b) => a + b, 0);
  if (row.torn) throw new Miscount('somebody saw half-done work', figures);
  if (row.begun !== counted) throw new Miscount(`of ${counted} writes ${row.begun} were kept`, figures);
  return figures;
}
