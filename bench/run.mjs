// npm run bench [-- --quick] [-- --only <text>] …: see options.mjs and README.md.

import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { compare, otherBuild, rowsAgainst } from './against.mjs';
import { efforts } from './effort.mjs';
import { parseOptions } from './options.mjs';
import { startProgress } from './progress.mjs';
import { comparisonTable, machineLine, targetTable, workloadTable } from './report.mjs';
import { newResults, writeResults } from './results.mjs';
import { measureWorkload, roundsOf, rowsOf } from './schedule.mjs';
import { servers } from './subjects/stores.mjs';
import { calibrate } from './support/busy.mjs';
import { startServers } from './support/servers.mjs';
import { evaluate } from './targets.mjs';
import { fullWorkloads, workloads } from './workloads/index.mjs';

/** @typedef {import('./results.mjs').Results} Results */
/** @typedef {import('./workloads/index.mjs').Workload} Workload */

const options = parseOptions(process.argv);
if (options.node !== undefined && String(options.node) !== process.versions.node.split('.')[0]) {
  process.exitCode = runUnder(options.node);
} else {
  // Exits explicitly: a subject that never ends may have started something that keeps this process alive.
  process.exit(await main());
}

/**
 * The same command under another version of Node. The npm package `node` contains the binary.
 *
 * @param {number} major
 */
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
  const chosenEffort = /** @type {const} */ (['full', 'quick', 'smoke']).find((name) => options[name]);
  const effort = { ...efforts[chosenEffort ?? 'default'], ...(options.rounds && { rounds: options.rounds }) };
  const stopServers = await startServers(servers, chosen);
  try {
    if (options.list) return list(chosen);
    return options.against === undefined
      ? await run(chosen, effort)
      : await runAgainst(chosen, effort, options.against);
  } finally {
    await stopServers();
  }
}

/** @param {readonly Workload[]} all */
function choose(all) {
  const { only = '' } = options;
  return all.filter(({ group, name }) => group.includes(only) || name.includes(only));
}

/** @param {readonly Workload[]} chosen */
function list(chosen) {
  for (const workload of chosen) {
    const able = rowsOf(workload).filter(({ status }) => status === 'measured');
    console.log(
      `${workload.group}: ${workload.name}\n    ${able.map(({ subject }) => subject.name).join('; ')}`,
    );
  }
  return 0;
}

/**
 * Measures one workload after the other, and shows each as soon as it is done.
 *
 * @param {readonly Workload[]} chosen
 * @param {import('./effort.mjs').Effort} effort
 * @param {(workload: Workload) => import('./schedule.mjs').Row[]} rowsFor
 * @param {(workload: import('./results.mjs').MeasuredWorkload) => void} show
 * @returns {Promise<Results>}
 */
async function measure(chosen, effort, rowsFor, show) {
  const started = performance.now();
  const results = newResults(effort.name);
  console.log(machineLine(results));
  const iterationsPerNanosecond = calibrate();
  const able = (/** @type {Workload} */ workload) =>
    rowsFor(workload).filter(({ status }) => status === 'measured').length;
  const steps = chosen.map((workload) => able(workload) * roundsOf(workload, effort));
  const progress = startProgress(steps.reduce((a, b) => a + b, 0));
  for (const workload of chosen) {
    const { name, group, runner } = workload;
    const measure = runner === 'waiters' ? workload.measure : undefined;
    const rows = await measureWorkload(
      workload,
      rowsFor(workload),
      effort,
      iterationsPerNanosecond,
      (subject) => progress.step(`${name}: ${subject}`),
    );
    const done = { name, group, runner, measure, rows };
    results.workloads.push(done);
    progress.pause(() => show(done));
  }
  progress.stop();
  results.seconds = Math.round((performance.now() - started) / 1000);
  return results;
}

/**
 * @param {readonly Workload[]} chosen
 * @param {import('./effort.mjs').Effort} effort
 */
async function run(chosen, effort) {
  const smoke = effort.name === 'smoke';
  const results = await measure(chosen, effort, rowsOf, (workload) => {
    if (!smoke) console.log(`\n${workloadTable(workload)}`);
  });
  return smoke ? smokeVerdict(results) : verdict(results, chosen);
}

/**
 * @param {readonly Workload[]} chosen
 * @param {import('./effort.mjs').Effort} effort
 * @param {string} folder
 */
async function runAgainst(chosen, effort, folder) {
  const other = otherBuild(folder);
  const results = await measure(
    chosen,
    effort,
    (workload) => rowsAgainst(workload, other),
    (workload) => {
      if (workload.rows.length > 0) console.log(`\n${comparisonTable(workload, compare(workload))}`);
    },
  );
  console.log(`\n${results.seconds} s against ${other}`);
  return failures(results).length === 0 ? 0 : 1;
}

/**
 * @param {Results} results
 * @param {readonly Workload[]} chosen
 */
async function verdict(results, chosen) {
  // The packages for charts take a second to load, and a smoke run does not need them.
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

/** @param {Results} results */
function smokeVerdict(results) {
  const failed = failures(results);
  for (const text of failed) console.error(text);
  const rows = results.workloads.flatMap(({ rows }) => rows);
  const passed = rows.filter(({ status }) => status === 'measured').length;
  console.log(`${passed} passed, ${failed.length} failed`);
  return failed.length === 0 && passed > 0 ? 0 : 1;
}

/** @param {Results} results */
function failures(results) {
  return results.workloads.flatMap(({ name, rows }) =>
    rows.filter(({ status }) => status === 'failed').map(({ subject, why }) => `${name}: ${subject}: ${why}`),
  );
}
