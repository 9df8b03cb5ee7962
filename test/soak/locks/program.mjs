// Everything that the lock promises to survive, at once: threads that die at random moments, nested acquisitions in
// random order, grants that meet timeouts and aborts, cycles of blocked threads, termination of blocked threads, and
// misused guards. Meanwhile the locks and the memory are watched.
//
//   --scenes churn,cycles   only these, see scenes.mjs

import { setTimeout as delay } from 'node:timers/promises';
import { below, randomFrom } from '../../workers/random.mjs';
import { Memory } from './memory.mjs';
import { scenes } from './scenes.mjs';

/** @typedef {import('stripelock').StripedLock} StripedLock */

/** Milliseconds between reports, and between two looks at locks and memory. */
const REPORT = 10_000;
const LOOK = 500;
/** Milliseconds in which every scene must end after the run's time. */
const WEDGED = 60_000;
/** Milliseconds. No wait in any scene takes this long, though all scenes wait often. */
const STUCK = 20_000;

/** @type {import('../run.mjs').Program['options']} */
export const options = { scenes: { type: 'string', default: Object.keys(scenes).join() } };

/** @type {import('../run.mjs').Program['play']} */
export async function play({ milliseconds, seed, violated }, values) {
  const names = String(values['scenes']).split(',');
  if (names.some((name) => !(name in scenes))) {
    throw new RangeError(`--scenes takes ${Object.keys(scenes).join(',')}`);
  }
  const start = performance.now();
  const goesOn = () => performance.now() - start < milliseconds;
  const stop = new SharedArrayBuffer(4);
  /** @type {StripedLock[]} */
  const locks = [];
  const memory = new Memory(start);
  const random = randomFrom(seed);
  /** @type {Record<string, import('./scenes.mjs').Counts>} */
  const counts = Object.fromEntries(names.map((name) => [name, {}]));
  const unfinished = new Set(names);

  const runs = names.map(async (name) => {
    const own = {
      goesOn,
      stop,
      locks,
      random: randomFrom(below(random, 2 ** 31)),
      counts: counts[name] ?? {},
    };
    const violations = await scenes[name]?.(own).catch((error) => [String(error?.stack ?? error)]);
    unfinished.delete(name);
    return (violations ?? []).map((violation) => `${name}: ${violation}`);
  });
  const report = () => {
    const told = names.map((name) => `${name} ${JSON.stringify(counts[name]).replaceAll('"', '')}`);
    const seconds = ((performance.now() - start) / 1000).toFixed(0);
    console.log(`${seconds} s, ${memory.latest.toFixed(0)} MiB: ${told.join(' ')}`);
  };
  const reporting = setInterval(report, REPORT);
  const watched = watch(locks, memory, goesOn);
  await delay(milliseconds);
  Atomics.store(new Int32Array(stop), 0, 1);
  const wedged = setTimeout(() => {
    console.error(`violation: wedged: ${[...unfinished].join(', ')}`);
    for (const lock of locks) console.error(lock.name, JSON.stringify(lock.inspect()));
    process.exit(2);
  }, WEDGED);
  for (const violation of (await Promise.all([...runs, watched])).flat()) violated(violation);
  clearTimeout(wedged);
  clearInterval(reporting);

  report();
  for (const violation of memory.verdict(milliseconds)) violated(violation);
}

/**
 * Each violation once, however often it is seen.
 *
 * @param {readonly StripedLock[]} locks
 * @param {Memory} memory
 * @param {() => boolean} goesOn
 */
async function watch(locks, memory, goesOn) {
  /** @type {Set<string>} */
  const violations = new Set();
  while (goesOn()) {
    for (const lock of locks)
      for (const violation of look(lock)) violations.add(`${lock.name}: ${violation}`);
    memory.look();
    await delay(LOOK);
  }
  return [...violations];
}

/**
 * The lock's reports must be consistent at any time.
 *
 * @param {StripedLock} lock
 */
function look(lock) {
  const { held, waiting, stripes } = lock.stats();
  if (held < 0 || held > stripes || waiting < 0) return ['stats() make no sense'];
  const states = lock.inspect();
  const numbers = states.map(({ stripe }) => stripe);
  if (numbers.some((stripe, i) => stripe <= (numbers[i - 1] ?? -1))) return ['inspect() is not in order'];
  const [stuck] = states.flatMap(({ waiters }) => waiters.filter(({ waitingFor }) => waitingFor > STUCK));
  return stuck === undefined ? [] : [`somebody waits for ${stuck.waitingFor.toFixed(0)} ms`];
}
