// npm run bench [-- --quick] [-- --only <text>] …: see options.mjs and README.md.

import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { efforts } from './effort.mjs';
import { parseOptions } from './options.mjs';
import { startProgress } from './progress.mjs';
import { machineLine, targetTable, workloadTable } from './report.mjs';
import { newResults, writeResults } from './results.mjs';
import { measureWorkload, roundsOf, rowsOf } from './schedule.mjs';
import { calibrate } from './support/busy.mjs';
import { startRedis } from './support/redis.mjs';
import { evaluate } from './targets.mjs';
import { fullWorkloads, workloads } from './workloads/index.mjs';

const options = parseOptions(process.argv);
if (options.node !== undefined && String(options.node) !== process.versions.node.split('.')[0]) {
  process.exitCode = runUnder(options.node);
} else {
  // Not by itself: what a subject that never ends has started in this process would keep it alive.
  process.exit(await main());
}

/** The same command under another version of Node; its npm package brings the binary. */
function runUnder(major) {
  const npx = process.platform === 'win32' ? 'npx.cmd' : 'npx';
  const { status, error } = spawnSync(npx, ['--yes', `node@${major}`, ...process.argv.slice(1)], {
    stdio: 'inherit',
    shell: process.platform === 'win32',
  });
  if (error) throw error;
  return status ?? 1;
}

async function main() {
  const chosen = choose(options.full ? fullWorkloads : workloads);
  if (chosen.length === 0) {
    console.error(`no workload's group or name contains "${options.only}"`);
    return 1;
  }
  const effort = efforts[['full', 'quick', 'smoke'].find((name) => options[name]) ?? 'default'];
  const stopRedis = await startRedis(chosen);
  try {
    return options.list ? list(chosen) : await run(chosen, effort);
  } finally {
    await stopRedis();
  }
}

function choose(all) {
  const { only = '' } = options;
  return all.filter(({ group, name }) => group.includes(only) || name.includes(only));
}

function list(chosen) {
  for (const workload of chosen) {
    const able = rowsOf(workload).filter(({ status }) => status === 'measured');
    console.log(
      `${workload.group}: ${workload.name}\n    ${able.map(({ subject }) => subject.name).join('; ')}`,
    );
  }
  return 0;
}

async function run(chosen, effort) {
  const started = performance.now();
  const results = newResults(effort.name);
  console.log(machineLine(results));
  const iterationsPerNanosecond = calibrate();
  const able = (workload) => rowsOf(workload).filter(({ status }) => status === 'measured').length;
  const steps = chosen.map((workload) => able(workload) * roundsOf(workload, effort));
  const progress = startProgress(steps.reduce((a, b) => a + b, 0));
  for (const workload of chosen) {
    const { name, group, runner, measure } = workload;
    const rows = await measureWorkload(workload, effort, iterationsPerNanosecond, (subject) =>
      progress.step(`${name}: ${subject}`),
    );
    const done = { name, group, runner, measure, rows };
    results.workloads.push(done);
    if (effort.name !== 'smoke') progress.pause(() => console.log(`\n${workloadTable(done)}`));
  }
  progress.stop();
  results.seconds = Math.round((performance.now() - started) / 1000);
  return effort.name === 'smoke' ? smokeVerdict(results) : verdict(results, chosen);
}

async function verdict(results, chosen) {
  // The charts' packages take a second to load, which a smoke run has no use for.
  const { drawCharts } = await import('./charts.mjs');
  const partial = chosen.length < workloads.length;
  const outcomes = evaluate(results).filter(({ met }) => !partial || met !== undefined);
  if (outcomes.length > 0) console.log(`\n${targetTable(outcomes)}`);
  const file = writeResults(results, path.join(import.meta.dirname, 'results'), partial);
  const files = [file, ...(await drawCharts(results, path.dirname(file), path.basename(file, '.json')))];
  console.log(`\n${results.seconds} s. Written:`);
  for (const name of files) console.log(`  ${path.relative(process.cwd(), name)}`);
  return failures(results).length === 0 ? 0 : 1;
}

function smokeVerdict(results) {
  const failed = failures(results);
  for (const text of failed) console.error(text);
  const rows = results.workloads.flatMap(({ rows }) => rows);
  const passed = rows.filter(({ status }) => status === 'measured').length;
  console.log(`${passed} passed, ${failed.length} failed`);
  return failed.length === 0 && passed > 0 ? 0 : 1;
}

function failures(results) {
  return results.workloads.flatMap(({ name, rows }) =>
    rows.filter(({ status }) => status === 'failed').map(({ subject, why }) => `${name}: ${subject}: ${why}`),
  );
}
