// All that the lock promises to survive, at once and for a long time: threads that die at random moments, nested
// acquisitions in random order, grants that meet timeouts and aborts, circles of blocked threads, termination of
// blocked threads, misused guards; and somebody who looks on. Ends with an error, and says what, where a promise
// was broken.
//
//   node test/soak/locks/program.mjs [--minutes 1] [--seed N] [--scenes churn,circles]

import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { below, randomFrom } from '../../workers/random.mjs';
import { scenes } from './scenes.mjs';

/** Milliseconds between reports, between two looks at memory, and in which everything must have come to its end. */
const REPORT = 10_000;
const LOOK = 500;
const WEDGED = 60_000;
/**
 * Milliseconds before which a process's memory has not found its level: with some twenty threads at a time, heaps and
 * malloc's arenas grow for two minutes, and then no more in ten.
 */
const WARM_UP = 150_000;
/** MiB that memory may be higher at its lowest late in the run than at its lowest early in it. */
const FLAT = 64;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

/** What the lock tells at any time must make sense. */
function look(lock) {
  const { held, waiting, stripes } = lock.stats();
  if (held < 0 || held > stripes || waiting < 0) return [`${lock.name}: stats() make no sense`];
  const states = lock.inspect();
  const ascending = states.every(({ stripe }, i) => i === 0 || states[i - 1].stripe < stripe);
  if (!ascending) return [`${lock.name}: inspect() is not in order`];
  // In seconds at most: nobody in any scene waits long, though all wait often.
  const stuck = states.flatMap(({ waiters }) => waiters.filter(({ waitingFor }) => waitingFor > 20_000));
  return stuck.length === 0 ? [] : [`${lock.name}: somebody waits for ${stuck[0].waitingFor.toFixed(0)} ms`];
}

async function watchLocks(locks, goesOn, memory, start) {
  const violations = new Set();
  while (goesOn()) {
    for (const lock of locks) for (const violation of look(lock)) violations.add(violation);
    collectGarbage();
    memory.push({ at: performance.now() - start, mebibytes: process.memoryUsage().rss / 2 ** 20 });
    await delay(LOOK);
  }
  return [...violations];
}

function growth(memory, milliseconds) {
  const lowest = (from, to) => {
    const between = memory.filter(({ at }) => at >= from && at < to);
    return Math.min(...between.map(({ mebibytes }) => mebibytes));
  };
  const middle = (WARM_UP + milliseconds) / 2;
  return lowest(middle, Infinity) - lowest(WARM_UP, middle);
}

async function main() {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '1' },
      seed: { type: 'string', default: process.env['STRIPELOCK_SEED'] ?? String(randomInt(2 ** 31)) },
      scenes: { type: 'string', default: Object.keys(scenes).join() },
    },
  });
  const milliseconds = Number(values.minutes) * 60_000;
  const seed = Number(values.seed);
  const names = values.scenes.split(',');
  if (!(milliseconds > 0) || !Number.isInteger(seed) || names.some((name) => !scenes[name])) {
    throw new RangeError(
      `cannot do --minutes ${values.minutes} --seed ${values.seed} --scenes ${values.scenes}`,
    );
  }
  console.log(`${names.join(', ')} for ${values.minutes} minutes, STRIPELOCK_SEED=${seed}`);

  const start = performance.now();
  const goesOn = () => performance.now() - start < milliseconds;
  const stop = new SharedArrayBuffer(4);
  const locks = [];
  const memory = [];
  const random = randomFrom(seed);
  const counts = Object.fromEntries(names.map((name) => [name, {}]));
  const unfinished = new Set(names);
  const report = () => {
    const told = names.map((name) => `${name} ${JSON.stringify(counts[name]).replaceAll('"', '')}`);
    const rss = (memory.at(-1)?.mebibytes ?? 0).toFixed(0);
    console.log(`${((performance.now() - start) / 1000).toFixed(0)} s, ${rss} MiB: ${told.join(' ')}`);
  };

  const runs = names.map(async (name) => {
    const context = { goesOn, stop, locks, random: randomFrom(below(random, 2 ** 31)), counts: counts[name] };
    const violations = await scenes[name](context).catch((error) => [String(error?.stack ?? error)]);
    unfinished.delete(name);
    return violations.map((violation) => `${name}: ${violation}`);
  });
  const reporting = setInterval(report, REPORT);
  const watched = watchLocks(locks, goesOn, memory, start);
  await delay(milliseconds);
  Atomics.store(new Int32Array(stop), 0, 1);
  const wedged = setTimeout(() => {
    console.error(`violation: wedged: ${[...unfinished].join(', ')}`);
    for (const lock of locks) console.error(lock.name, JSON.stringify(lock.inspect()));
    process.exit(2);
  }, WEDGED);
  const violations = (await Promise.all([...runs, watched])).flat();
  clearTimeout(wedged);
  clearInterval(reporting);

  report();
  if (milliseconds >= 3 * WARM_UP) {
    const grown = growth(memory, milliseconds);
    console.log(`memory: ${grown.toFixed(0)} MiB more at its lowest late than early`);
    if (!(grown < FLAT)) violations.push(`memory has grown by ${grown.toFixed(0)} MiB`);
  } else {
    console.log('memory: too short a run to tell');
  }
  for (const violation of violations) console.error(`violation: ${violation}`);
  console.log(violations.length === 0 ? 'clean' : `${violations.length} violations`);
  process.exitCode = violations.length === 0 ? 0 : 1;
}

await main();
