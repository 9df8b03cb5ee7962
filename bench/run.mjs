// npm run bench [-- --only <part of a workload's name>] [--smoke]

import Benchmark from 'benchmark';
import { Command } from 'commander';
import { leases } from './workloads/leases.mjs';
import { uncontended } from './workloads/uncontended.mjs';

/** Awaits in one timed call of an async row, so that Benchmark.js's own cost of a deferred call does not show. */
const AWAITS = 1000;

const options = new Command('bench')
  .description('Compares stripelock with what people use today. Ratios within one workload are what counts.')
  .option('--only <text>', 'only workloads whose name contains this text')
  .option('--smoke', 'run everything for a moment, to see that it works')
  .parse()
  .opts();

const workloads = [...uncontended, ...leases].filter(({ name }) => name.includes(options.only ?? ''));
if (workloads.length === 0) {
  console.error(`no workload's name contains "${options.only}"`);
  process.exit(1);
}

let measured = 0;
console.log(`Node ${process.version}, ${process.platform} ${process.arch}`);
for (const workload of workloads) {
  const results = await measure(workload);
  const floor = results[0];
  console.log(`\n${workload.name}`);
  console.table(
    Object.fromEntries(
      results.map(({ name, best, mean, spread }) => [
        name,
        {
          'best ns/op': Number(best.toFixed(1)),
          'mean ns/op': Number(mean.toFixed(1)),
          '± %': Number(spread.toFixed(1)),
          'ratio of best': Number((best / floor.best).toFixed(2)),
        },
      ]),
    ),
  );
  measured += results.length;
}
if (options.smoke) console.log(`${measured} passed, 0 failed`);

/** Resolves to one result per row, in order. Rejects with the first error of a row. */
async function measure(workload) {
  const settings = options.smoke ? { maxTime: 0.01, minSamples: 1, initCount: 1 } : { maxTime: 1 };
  const suite = new Benchmark.Suite();
  const rows = workload.rows();
  for (const { name, run, prepare } of rows) {
    await prepare?.();
    if (workload.async)
      suite.add(name, { ...settings, defer: true, fn: (deferred) => awaitMany(run, deferred) });
    else suite.add(name, { ...settings, fn: run });
  }
  const results = await new Promise((resolve, reject) => {
    suite
      .on('error', (event) => reject(event.target.error))
      .on('complete', () => {
        resolve(
          Array.from(suite, (row) => {
            const scale = 1e9 / (workload.async ? AWAITS : 1);
            // The best sample is what other load on the machine disturbs least.
            const best = Math.min(...row.stats.sample) * scale;
            return { name: row.name, best, mean: row.stats.mean * scale, spread: row.stats.rme };
          }),
        );
      })
      .run({ async: true });
  });
  for (const { dispose } of rows) await dispose?.();
  return results;
}

/** A row that takes a number repeats its operation itself. */
async function awaitMany(run, deferred) {
  if (run.length === 1) await run(AWAITS);
  else for (let i = 0; i < AWAITS; i++) await run();
  deferred.resolve();
}
