// Processes that take leases on a real store while everything goes wrong, for as long as is asked for. Ends with an
// error, and says what, where a promise was broken.
//
//   node test/soak/faults/program.mjs [--store redis,sqlite] [--minutes 1] [--seed N] [--only replies] [--plant plain-counter]
//
// --only plays the scenarios whose name contains a text, once. With --plant the processes have a bug, of those in test/soak/faults/planted.mjs, and only the scenario that reveals it is
// played: it must end with an error.

import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { PLANTS } from './planted.mjs';
import { runFuzz, runScenario } from './run-scenario.mjs';
import { revealing, scenarios } from './scenarios.mjs';

/** Milliseconds of one world of random faults: its history is checked as a whole. */
const FUZZ = 20_000;

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'redis,sqlite' },
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(randomInt(2 ** 31)) },
    only: { type: 'string', default: '' },
    plant: { type: 'string' },
  },
});
const stores = values.store.split(',');
const milliseconds = Number(values.minutes) * 60_000;
let seed = Number(values.seed);
if (stores.some((store) => !(store in scenarios)) || !(milliseconds > 0) || !Number.isInteger(seed)) {
  throw new RangeError('--store redis,sqlite, --minutes above 0, --seed an integer');
}
if (values.plant !== undefined && !PLANTS.includes(values.plant)) {
  throw new RangeError(`--plant one of ${PLANTS.join(', ')}`);
}

let broken = 0;
async function play(store, name, run) {
  const started = performance.now();
  const { violations, counts } = await run({ store, seed, plant: values.plant });
  const done = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(
    `${store}: ${name} (seed ${seed}, ${seconds} s): ${done.join(', ')}, ${violations.length} violations`,
  );
  for (const violation of violations.slice(0, 20)) console.log(`  ${violation}`);
  broken += violations.length;
  seed++;
}

for (const store of stores) {
  const until = performance.now() + milliseconds;
  if (values.plant !== undefined) {
    const name = revealing[values.plant];
    await play(store, name, (options) => runScenario(name, options));
    continue;
  }
  for (const name of Object.keys(scenarios[store]).filter((name) => name.includes(values.only))) {
    if (performance.now() < until) await play(store, name, (options) => runScenario(name, options));
  }
  while (values.only === '' && performance.now() < until) {
    const left = Math.max(1000, Math.min(FUZZ, until - performance.now()));
    await play(store, 'random faults', (options) => runFuzz(left, options));
  }
}
console.log(broken === 0 ? 'no violations' : `${broken} violations`);
process.exitCode = broken === 0 ? 0 : 1;
