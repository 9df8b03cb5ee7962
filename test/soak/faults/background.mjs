import { setTimeout as delay } from 'node:timers/promises';
import { WHILE } from './clock.mjs';
import { APART, fuzz } from './fuzz.mjs';

/**
 * Where a second thread can open the store.
 *
 * @type {import('./store-faults.mjs').Scenarios<any>}
 */
export const background = {
  async 'the event loop of holders is blocked, and another thread renews their leases'(world) {
    // A thread of a busy machine must be in time.
    world.ttl = Math.max(Math.round(900 * world.slowness), world.ttl);
    const settings = { ttl: world.ttl, blockFor: 3 * world.ttl, steps: 3, patience: 20_000 };
    await world.start(2, { ...settings, background: true });
    await world.start(1, { ...settings, blockFor: 0 });
    const longBlocks = () =>
      world.history().filter(({ op, for: milliseconds }) => op === 'blocked' && milliseconds > world.ttl);
    // They block at random.
    for (let i = 0; i < 10 && longBlocks().length === 0; i++) await delay(25 * WHILE);
    await world.expectProgress();
    await world.finish();
    const long = longBlocks();
    const kept = long.filter(({ still }) => still).length;
    console.log(
      `${world.store}: of ${long.length} holders blocked beyond their ttl, ${kept} kept their lease`,
    );
    if (kept === 0) world.violations.push('no blocked holder kept its lease');
  },

  async 'holders hang beyond maxHold, and another thread renews their leases until then'(world) {
    const settings = { steps: 2, background: true, maxHold: world.ttl, blockFor: 6 * world.ttl };
    await world.start(3, { ...settings, patience: 20_000 });
    await delay(10 * WHILE);
    await world.expectProgress();
  },

  'random faults hit holders that block, some of which another thread renews': (world) =>
    fuzz(world, 10 * WHILE, APART, { background: true, blockFor: 3 * world.ttl }),
};
