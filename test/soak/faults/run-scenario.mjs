import { APART, fuzz, OVERLAPPING, PERMITS, READING } from './fuzz.mjs';
import { scenariosOf } from './scenarios.mjs';
import { World } from './world.mjs';

/** @typedef {import('./world.mjs').WorldOptions} WorldOptions */

/**
 * @param {WorldOptions} options
 * @param {(world: World) => unknown} play
 */
async function runIn(options, play) {
  const world = await World.create(options);
  try {
    await play(world);
    return await world.finish();
  } finally {
    await world.close();
  }
}

/**
 * One scenario on one store: what was violated, and how much was done.
 *
 * @param {string} name
 * @param {WorldOptions} options
 */
export function runScenario(name, options) {
  return runIn(options, (world) => scenariosOf(world.kind)[name](world, world.backend));
}

/**
 * Leases of one key, leases of overlapping keys, permits and shared leases take turns. Half of the holders block their event loops, while another
 * thread renews their leases where it can.
 *
 * @param {number} milliseconds
 * @param {WorldOptions} options
 */
export function runFuzz(milliseconds, options) {
  const settings = [OVERLAPPING, APART, PERMITS, READING][options.seed % 4];
  return runIn(options, (world) =>
    fuzz(world, milliseconds, settings, { background: world.kind.reopens, blockFor: 2 * world.ttl }),
  );
}
