// Processes that take leases on a real store while everything goes wrong: first each scenario once, then random faults.
//
//   --store redis,sqlite    the stores; all if it is not given
//   --only replies          plays the scenarios whose name contains the text, once, and no random faults
//   --random                plays random faults only; with --seed, the same ones first
//   --history folder        keeps what led to a violation: what holders did and asked, and the logs of servers where they
//                           write any
//   --plant plain-counter   gives the processes a bug of planted.mjs, and plays the scenario that reveals it: it must
//                           find violations
//
// What the server itself has broken is printed, too, but is not a violation, if the requests of all holders and the server's own
// log prove it.

import { PLANTS } from './planted.mjs';
import { runFuzz, runScenario } from './run-scenario.mjs';
import { revealing, scenariosOf } from './scenarios.mjs';
import { loadStore, storeNames } from './store-faults.mjs';

/** Milliseconds of random faults in one world. The history of a world is checked as a whole. */
const FUZZ = 20_000;
/** How many violations of one world are printed. */
const SHOWN = 20;

/** @type {import('../run.mjs').Program['options']} */
export const options = {
  store: { type: 'string', default: storeNames.join() },
  only: { type: 'string', default: '' },
  random: { type: 'boolean' },
  history: { type: 'string' },
  plant: { type: 'string' },
};

/** @type {import('../run.mjs').Program['play']} */
export async function play({ milliseconds, seed, violated }, values) {
  const { store: names = '', only = '', random = false, history, plant } = values;
  const stores = names.split(',');
  if (plant !== undefined && !PLANTS.includes(plant)) {
    throw new RangeError(`--plant takes one of ${PLANTS.join(', ')}`);
  }
  for (const store of stores) {
    const kind = await loadStore(store);
    if (kind.missing) {
      violated(`${store}: there is no ${kind.missing.what}, so nothing was played. ${kind.missing.advice}`);
      continue;
    }
    const until = performance.now() + milliseconds;
    for (const [name, run] of worldsOf(kind, until, { only, random, plant })) {
      const started = performance.now();
      const { violations, broken, counts } = await run({ store, seed, plant, history });
      const done = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      console.log(`${store}: ${name} (seed ${seed}, ${seconds} s): ${done.join(', ')}`);
      for (const promise of broken) console.log(`not ours, ${store} broke its promise: ${name}: ${promise}`);
      for (const violation of violations.slice(0, SHOWN)) violated(`${store}: ${name}: ${violation}`);
      if (violations.length > SHOWN) violated(`${store}: ${name}: and ${violations.length - SHOWN} more`);
      seed++;
    }
  }
}

/**
 * The scenarios of a store, one after the other, until the time is up.
 *
 * @param {import('./store-faults.mjs').StoreFaults} kind
 * @param {number} until
 * @param {{ only: string, random: boolean, plant: string | undefined }} wanted
 * @returns {Generator<[name: string, run: (options: import('./world.mjs').WorldOptions) => ReturnType<typeof runFuzz>]>}
 */
function* worldsOf(kind, until, { only, random, plant }) {
  if (plant !== undefined) {
    const name = revealing[plant];
    yield [name, (options) => runScenario(name, options)];
    return;
  }
  const names = random ? [] : Object.keys(scenariosOf(kind)).filter((name) => name.includes(only));
  for (const name of names) {
    if (performance.now() < until) yield [name, (options) => runScenario(name, options)];
  }
  while (only === '' && performance.now() < until) {
    const left = Math.max(1000, Math.min(FUZZ, until - performance.now()));
    yield ['random faults', (options) => runFuzz(left, options)];
  }
}
