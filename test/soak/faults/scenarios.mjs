import { setTimeout as delay } from 'node:timers/promises';
import { background } from './background.mjs';
import { WHILE } from './clock.mjs';
import { APART, fuzz, OVERLAPPING, PERMITS, READING } from './fuzz.mjs';
import { repliesAreDelayed } from './server-scenarios.mjs';

/** @typedef {import('./store-faults.mjs').Scenarios<import('./store-faults.mjs').Backend>} Scenarios */

/**
 * Three times: a holder is stopped for longer than its TTL, and another one is killed.
 *
 * @param {import('./world.mjs').World} world
 * @param {() => Promise<unknown>} goesOn
 */
async function stopAndKill(world, goesOn) {
  for (let i = 0; i < 3; i++) {
    const stopped = await world.nextHolder();
    stopped?.pause();
    await delay(world.ttl * 1.2);
    await world.expectProgress(world.holders.filter((holder) => holder.isRunning && holder !== stopped));
    stopped?.resume();
    await (await world.nextHolder())?.kill();
    await goesOn();
  }
}

/**
 * On every store.
 *
 * @type {Scenarios}
 */
const common = {
  async 'a holder is killed'(world) {
    await world.start(3);
    for (let i = 0; i < 2; i++) {
      const holder = await world.nextHolder();
      await holder?.kill();
      await world.expectProgress();
    }
  },

  async 'a holder is stopped beyond its TTL, and goes on while another holds'(world) {
    // They hold for longer than a turn takes, so that another process holds the key when the stopped one continues.
    await world.start(4, { steps: 10, step: 12, gap: 2 });
    for await (const _ of world.rounds(4)) {
      const stopped = await world.nextHolder();
      stopped?.pause();
      await delay(world.ttl * 1.2);
      await world.nextHolder(5000, (holder) => holder !== stopped);
      stopped?.resume();
      await world.expectProgress();
      await delay(WHILE / 2);
    }
  },

  async 'the event loop of holders is blocked'(world) {
    await world.start(3, { blockFor: 2 * world.ttl, steps: 2 });
    await delay(4 * WHILE);
    await world.expectProgress();
  },

  async 'replies of some are delayed'(world, { port }) {
    if (port !== undefined) return repliesAreDelayed(world, port);
    const settings = { renew: false, steps: 60, step: 8 };
    const [late] = await world.start(1, { ...settings, gap: 5, delay: 0.5 * world.ttl });
    await world.start(2, { ...settings, steps: 1, gap: 120, backoff: 10 });
    for await (const _ of world.rounds(4)) {
      await world.expectProgress([late]);
      await world.nextHolder(5000, (holder) => holder !== late);
    }
  },

  async 'the store forgets everything'(world) {
    await world.start(3);
    for await (const _ of world.rounds(3)) {
      await delay(WHILE);
      await world.forget();
      await world.expectProgress();
    }
    await delay(WHILE);
  },

  async 'two thousand wait'(world) {
    world.ttl = Math.max(Math.round(1500 * world.slowness), world.ttl);
    const processes = 4;
    const settings = {
      waiters: 2000 / processes,
      steps: 0,
      patience: 120_000,
      backoff: 1000,
      timeout: 20_000,
    };
    await world.start(processes, { ...settings, ttl: world.ttl });
    const ended = world.holders.map((holder) => holder.ended);
    await Promise.race([Promise.all(ended), delay(60_000 * world.slowness, undefined, { ref: false })]);
    const { history } = await world.finish();
    const grants = history.filter(({ op }) => op === 'acquire').length;
    if (grants !== 2000) world.violations.push(`only ${grants} of 2000 were granted`);
  },

  async 'holders of overlapping keys are killed and stopped'(world) {
    await world.start(5, { ...OVERLAPPING, timeout: 1000, patience: 10_000 });
    await stopAndKill(world, () => world.expectProgress());
  },

  async 'holders of permits are killed and stopped, and each gets its turn'(world) {
    await world.start(6, { ...PERMITS, timeout: 1000, patience: 10_000 });
    await stopAndKill(world, async () => {
      for (const holder of world.holders) if (holder.isRunning) await world.expectProgress([holder]);
    });
  },

  async 'some want all keys, others take them one by one, and each gets them'(world) {
    const settings = { ...OVERLAPPING, timeout: 1000, patience: 10_000 };
    await world.start(4, { ...settings, together: 1, gap: 0 });
    const [all] = await world.start(1, {
      ...settings,
      keys: ['left', 'right', 'top'],
      together: 3,
      least: 3,
    });
    for (let i = 0; i < 4; i++) await world.expectProgress([all]);
    await world.expectProgress(world.holders.filter((holder) => holder !== all));
  },

  async 'readers and writers are killed and stopped, and each gets its turn'(world) {
    const settings = { step: 5, gap: 5, timeout: 1000, patience: 10_000 };
    await world.start(2, settings);
    await world.start(4, { ...settings, shared: 1 });
    await stopAndKill(world, async () => {
      for (const holder of world.holders) if (holder.isRunning) await world.expectProgress([holder]);
    });
  },

  async 'writers get their turns while readers come all the time'(world) {
    const settings = { timeout: 1000, patience: 20_000 };
    // Unless readers are put off, the key never becomes free, however slow the store is.
    await world.start(5, { ...settings, shared: 1, gap: 0, relay: true });
    const [writer] = await world.start(1, { ...settings, steps: 1 });
    for await (const _ of world.rounds(4)) await world.expectProgress([writer]);
    for (const reader of world.holders) await world.expectProgress([reader]);
  },

  '8 processes count on 2 keys while faults come at random': (world) => fuzz(world, 5 * WHILE, APART),

  '8 processes lease overlapping keys while faults come at random': (world) =>
    fuzz(world, 5 * WHILE, OVERLAPPING),

  '8 processes share 3 permits while faults come at random': (world) => fuzz(world, 5 * WHILE, PERMITS),

  '8 processes read and write while faults come at random': (world) => fuzz(world, 5 * WHILE, READING),
};

/**
 * All that are played on a store.
 *
 * @param {import('./store-faults.mjs').StoreFaults} kind
 * @returns {import('./store-faults.mjs').Scenarios<any>}
 */
export function scenariosOf({ scenarios, reopens }) {
  return { ...common, ...scenarios, ...(reopens ? background : {}) };
}

/**
 * For each planted bug, where it must be found.
 *
 * @type {Record<string, string>}
 */
export const revealing = {
  'release-without-compare': 'a holder is stopped beyond its TTL, and goes on while another holds',
  'plain-counter': 'the store forgets everything',
  'deadline-from-reply': 'replies of some are delayed',
  'never-abandoned': 'a holder is stopped beyond its TTL, and goes on while another holds',
  'always-abandoned': 'a holder is stopped beyond its TTL, and goes on while another holds',
  'reader-frees-all': 'readers and writers are killed and stopped, and each gets its turn',
  'readers-not-put-off': 'writers get their turns while readers come all the time',
};
