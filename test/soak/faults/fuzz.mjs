import { setTimeout as delay } from 'node:timers/promises';
import { below } from '../../workers/random.mjs';
import { now } from './clock.mjs';
import { Proxy } from '../../support/proxy.mjs';

/** @typedef {import('./world.mjs').World} World */
/** @typedef {(world: World) => unknown} Fault */

const PROCESSES = 8;

/** Leases of one of two keys. */
export const APART = { keys: ['left', 'right'], step: 5, gap: 5, timeout: 200 };
/** Leases of one to three of four keys, which overlap. */
export const OVERLAPPING = { ...APART, keys: ['left', 'right', 'top', 'bottom'], together: 3 };

/**
 * 8 processes count for the given time, while one fault follows the other.
 *
 * @param {World} world
 * @param {number} milliseconds
 * @param {Partial<import('./process.mjs').Settings>} settings
 * @param {Partial<import('./process.mjs').Settings>} [ofSome] Further settings of half of them.
 */
export async function fuzz(world, milliseconds, settings, ofSome = {}) {
  /** @type {Proxy | undefined} */
  let proxy;
  if (world.store === 'redis') {
    const between = await Proxy.to(world.server.port);
    proxy = between;
    world.onClose(() => between.close());
    await world.start(PROCESSES / 2, { ...settings, ...ofSome, port: between.port });
    await world.start(PROCESSES / 2, settings);
  } else {
    await world.start(PROCESSES / 2, { ...settings, ...ofSome });
    await world.start(PROCESSES / 2, settings);
  }
  const faults = [...common(settings), ...(proxy ? ofRedis(proxy) : ofSqlite)];
  const until = now() + milliseconds;
  while (now() < until) {
    await faults[below(world.random, faults.length)](world);
    await delay(below(world.random, 100));
  }
  await world.expectProgress();
}

/** @param {World} world */
function anyOf(world) {
  const running = world.holders.filter(({ isRunning }) => isRunning);
  return running[below(world.random, running.length)];
}

const someTime = (/** @type {World} */ world) => delay(below(world.random, 2 * world.ttl));

/**
 * @param {Partial<import('./process.mjs').Settings>} settings
 * @returns {Fault[]}
 */
const common = (settings) => [
  async (world) => {
    const holder = (await world.nextHolder(1000)) ?? anyOf(world);
    holder.pause();
    await someTime(world);
    holder.resume();
  },
  async (world) => {
    const { port } = anyOf(world).settings;
    await ((await world.nextHolder(1000)) ?? anyOf(world)).kill();
    await world.start(1, { ...settings, ...(port === undefined ? {} : { port }) });
  },
  (world) => world.forget(),
];

/**
 * @param {Proxy} proxy
 * @returns {Fault[]}
 */
const ofRedis = (proxy) => [
  async (world) => {
    proxy.delay = below(world.random, world.ttl);
    await someTime(world);
    proxy.delay = 0;
  },
  () => proxy.cut(),
  (world) => world.server.command('SCRIPT', 'FLUSH'),
  (world) => world.server.command('CLIENT', 'PAUSE', String(below(world.random, world.ttl)), 'ALL'),
  async (world) => {
    world.server.signal('SIGSTOP');
    await someTime(world);
    world.server.signal('SIGCONT');
  },
  async (world) => {
    await world.lose(() => world.server.kill());
    await world.server.start();
  },
];

/** @type {Fault[]} */
const ofSqlite = [
  async (world) => {
    await world.whileFree(() => world.database.exec('BEGIN IMMEDIATE'));
    await someTime(world);
    world.database.exec('COMMIT');
  },
];
