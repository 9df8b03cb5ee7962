// Scenarios that suit any store on a server.

import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';
import { below } from '../../workers/random.mjs';
import { WHILE } from './clock.mjs';

/** Parts of the TTL. An attempt may take three answers: a look, an etcd lease, a grant. */
const SOME = 0.2;
const ALMOST_ALL = 0.9;
/** Milliseconds, of leases whose replies are delayed: beside the delay, steps that wait for a processor must fit into it. */
const LONG = 900;

/**
 * @typedef {import('./world.mjs').World} World
 * @typedef {import('stripelock').LeaseStore} LeaseStore
 * @typedef {{ port: number }} OnServer A backend with a server.
 */

/**
 * @param {World} world
 * @param {OnServer} backend
 */
export async function connectionsAreCut(world, backend) {
  const proxy = await world.proxyTo(backend.port);
  await world.start(3, { port: proxy.port });
  for (let i = 0; i < 8; i++) {
    await delay(WHILE / 4);
    proxy.delay = i % 2 === 0 ? 20 : 0;
    proxy.cut();
  }
  await world.expectProgress();
}

/**
 * Stopped for a while, and continued.
 *
 * @param {World} world
 * @param {{ signal(name: NodeJS.Signals): unknown }} server
 */
export async function serverIsPaused(world, server) {
  await world.start(3, { timeout: 200 });
  for (const pause of [world.ttl / 2, 1.5 * world.ttl, 3 * world.ttl]) {
    await delay(WHILE / 2);
    server.signal('SIGSTOP');
    await delay(pause);
    server.signal('SIGCONT');
    await world.expectProgress();
  }
}

/**
 * One of the faults that come at random.
 *
 * @param {World} world
 * @param {{ signal(name: NodeJS.Signals): unknown }} server
 */
export async function pauseForRandomTime(world, server) {
  server.signal('SIGSTOP');
  await delay(below(world.random, 2 * world.ttl));
  server.signal('SIGCONT');
}

/**
 * Killed and started again. That excuses no loss of a grant: it must come back with its data.
 *
 * @param {World} world
 * @param {{ kill(): Promise<unknown>, start(): Promise<unknown> }} server
 */
export async function serverIsKilled(world, server) {
  await world.start(3);
  for (let i = 0; i < 3; i++) {
    await delay(WHILE);
    await world.nextHolder();
    await world.crash(server);
    await delay(WHILE / 2);
    await server.start();
    await world.expectProgress();
  }
}

/**
 * @param {World} world
 * @param {() => Promise<unknown>} terminate Ends the sessions of all clients.
 */
export async function sessionsAreTerminated(world, terminate) {
  await world.start(4);
  for (let i = 0; i < 8; i++) {
    await delay(WHILE / 4);
    await terminate();
  }
  await world.expectProgress();
}

/**
 * Another client locks the rows.
 *
 * @param {World} world
 * @param {{ lockFor(milliseconds: number): Promise<unknown> }} backend
 */
export async function rowsAreLocked(world, backend) {
  await world.start(3, { timeout: 100 });
  for (const pause of [world.ttl / 4, 1.5 * world.ttl, 3 * world.ttl]) {
    await delay(WHILE / 2);
    await backend.lockFor(pause);
    await world.expectProgress();
  }
}

/**
 * For one client of three. In half of the rounds a correct client has time left when it is granted a lease. In the others it
 * has hardly any: a client that counts from the reply continues for almost a TTL after its lease has ended on the server,
 * while the others wait for the key. Where an attempt reads first, the others would change the key before its late write, so
 * they are stopped until then.
 *
 * @param {World} world
 * @param {number} port
 */
export async function repliesAreDelayed(world, port) {
  world.ttl = Math.max(world.ttl, Math.round(LONG * world.slowness));
  const { readsFirst = false } = world.kind;
  const almostAll = (ALMOST_ALL * world.ttl) / (readsFirst ? 2 : 1);
  const proxy = await world.proxyTo(port);
  const settings = { renew: false, step: 8, timeout: 3 * LONG, patience: 6 * LONG };
  // Holds for as long as it may.
  const [late] = await world.start(1, { ...settings, port: proxy.port, steps: 1000, gap: 5 });
  proxy.delay = SOME * world.ttl;
  // These hold briefly, and ask often.
  const others = await world.start(2, { ...settings, steps: 1, gap: 120, backoff: 10 });
  const isLate = (/** @type {import('./process.mjs').Holder} */ holder) => holder === late;
  for await (const i of world.rounds(6)) {
    if (readsFirst) for (const other of others) other.pause();
    if (i % 2 === 0) {
      proxy.delay = SOME * world.ttl;
      await world.expectProgress([late]);
    } else {
      proxy.delay = almostAll;
      await world.nextHolder(4 * LONG, isLate);
    }
    for (const other of others) other.resume();
    await world.nextHolder(5000, (holder) => !isLate(holder));
  }
  // Its pending answers arrive at once.
  proxy.delay = 0;
}

/**
 * A value that is no lease stands at a key that is held. Nobody is granted the key until it is removed.
 *
 * @param {World} world
 * @param {{ connect(): LeaseStore | Promise<LeaseStore> }} backend
 * @param {() => Promise<() => unknown>} replace Loses the lease and writes the value. Resolves to what removes it.
 */
export async function somethingElseIsAtTheKey(world, backend, replace) {
  const manager = new LeaseManager({ store: await backend.connect(), ttl: 60_000 });
  await manager.withLease('key', async () => {
    const remove = await replace();
    await world.start(2, { patience: 50 });
    const holder = await world.nextHolder(WHILE);
    if (holder) world.violations.push('a lease was granted where something else was');
    await remove();
  });
  await world.expectProgress();
}
