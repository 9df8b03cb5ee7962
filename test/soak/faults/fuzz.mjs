import { setTimeout as delay } from 'node:timers/promises';
import { below } from '../../workers/random.mjs';
import { now } from './clock.mjs';

/**
 * @typedef {import('./world.mjs').World} World
 * @typedef {import('./process.mjs').Settings} Settings
 * @typedef {() => unknown} Fault
 */

const PROCESSES = 8;

/** Leases of one of two keys. */
export const APART = { keys: ['left', 'right'], step: 5, gap: 5, timeout: 200 };
/** Leases of one to three of four keys, which overlap. */
export const OVERLAPPING = { ...APART, keys: ['left', 'right', 'top', 'bottom'], together: 3 };

/** Leases of one of three slots of a key. */
export const PERMITS = { ...APART, keys: ['key'], limit: 3 };
/** Leases of one of two keys, most of them shared. */
export const READING = { ...APART, shared: 0.7 };

/**
 * 8 processes count for the given time, while one fault follows the other. Half of them reach a server through a proxy.
 *
 * @param {World} world
 * @param {number} milliseconds
 * @param {Partial<Settings>} settings
 * @param {Partial<Settings>} [ofSome] Further settings of half of them.
 */
export async function fuzz(world, milliseconds, settings, ofSome = {}) {
  const { backend, kind } = world;
  const proxy = backend.port === undefined ? undefined : await world.proxyTo(backend.port);
  await world.start(PROCESSES / 2, { ...settings, ...ofSome, ...(proxy && { port: proxy.port }) });
  await world.start(PROCESSES / 2, settings);
  /** @type {Fault[]} */
  const faults = [
    ...onAnyStore(world, settings),
    ...(proxy ? ofNetwork(world, proxy) : []),
    ...kind.faults.map((fault) => () => fault(world, backend)),
  ];
  const until = now() + milliseconds;
  while (now() < until) {
    await faults[below(world.random, faults.length)]();
    await delay(below(world.random, 100));
  }
  await world.expectProgress();
}

/** @param {World} world */
function anyOf(world) {
  const running = world.holders.filter(({ isRunning }) => isRunning);
  return running[below(world.random, running.length)];
}

/**
 * @param {World} world
 * @param {Partial<Settings>} settings
 * @returns {Fault[]}
 */
const onAnyStore = (world, settings) => [
  async () => {
    const holder = (await world.nextHolder(1000)) ?? anyOf(world);
    holder.pause();
    await delay(below(world.random, 2 * world.ttl));
    holder.resume();
  },
  async () => {
    const { port } = anyOf(world).settings;
    await ((await world.nextHolder(1000)) ?? anyOf(world)).kill();
    await world.start(1, { ...settings, port });
  },
  () => world.forget(),
];

/**
 * @param {World} world
 * @param {import('../../support/proxy.mjs').Proxy} proxy
 * @returns {Fault[]}
 */
const ofNetwork = (world, proxy) => [
  async () => {
    proxy.delay = below(world.random, world.ttl);
    await delay(below(world.random, 2 * world.ttl));
    proxy.delay = 0;
  },
  () => proxy.cut(),
];
