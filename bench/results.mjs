// The output of a run: one JSON file with the figures that pages and charts show, round by round.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { summary } from './support/statistics.mjs';
import { keptMetrics, metrics, primaryMetric } from './metrics.mjs';
import { commit, machine, versions } from './support/machine.mjs';
import { subjects } from './subjects/index.mjs';
import { processLocks } from './subjects/process-locks.mjs';
import { storeSubjects } from './subjects/stores.mjs';

export const NATIVE = 'stripelock native';
export const JAVASCRIPT = 'stripelock javascript';

/**
 * @typedef {object} Results
 * @property {1} format
 * @property {string} date ISO 8601.
 * @property {string} effort
 * @property {number} seconds The whole run's.
 * @property {ReturnType<typeof machine>} machine
 * @property {Record<string, string>} versions
 * @property {string} [commit]
 * @property {boolean} [dirty] Whether the work tree had changes on top of the commit.
 * @property {MeasuredWorkload[]} workloads
 *
 * @typedef {object} MeasuredWorkload
 * @property {string} name
 * @property {string} group
 * @property {import('./workloads/index.mjs').Workload['runner']} runner
 * @property {import('./workloads/index.mjs').Measure | undefined} [measure] If the runner can
 *   measure more than one thing.
 * @property {MeasuredRow[]} rows
 *
 * @typedef {import('./schedule.mjs').MeasuredRow} MeasuredRow
 */

/**
 * @param {string} effort
 * @returns {Results} Without workloads yet.
 */
export function newResults(effort) {
  return {
    format: 1,
    date: new Date().toISOString(),
    effort,
    seconds: NaN,
    machine: machine(),
    versions: versions([...subjects, ...processLocks, ...Object.values(storeSubjects)]),
    ...commit(),
    workloads: [],
  };
}

/** Significant digits of a figure in a file: more than any page or chart shows. */
const DIGITS = 6;

/**
 * The text of a file of results: one line for each row, with the {@link keptMetrics}.
 *
 * @param {Results} results
 */
export function fileText({ workloads, ...run }) {
  const head = JSON.stringify(run, undefined, 1).replace(/\n\}$/, '');
  const parts = workloads.map(({ rows, ...workload }) => {
    const kept = keptMetrics(workload);
    const lines = rows.map((row) => `   ${JSON.stringify(keptOf(row, kept))}`);
    return `  ${JSON.stringify(workload).slice(0, -1)},"rows":[\n${lines.join(',\n')}\n  ]}`;
  });
  return `${head},\n "workloads": [\n${parts.join(',\n')}\n ]\n}\n`;
}

/**
 * @param {MeasuredRow} row
 * @param {readonly string[]} kept
 */
function keptOf({ rounds, ...row }, kept) {
  const figuresOf = (/** @type {MeasuredRow['rounds'][number]} */ figures) =>
    Object.fromEntries(
      kept.flatMap((metric) => {
        const figure = figures[metric];
        return figure === undefined ? [] : [[metric, Number(figure.toPrecision(DIGITS))]];
      }),
    );
  return { ...row, rounds: rounds.map(figuresOf) };
}

/**
 * @param {Results} results
 * @param {string} folder
 * @param {boolean} partial Whether workloads were left out.
 * @returns {string} The file's path.
 */
export function writeResults(results, folder, partial) {
  const major = results.versions.node.split('.')[0];
  const suffix = `${results.effort === 'default' ? '' : `-${results.effort}`}${partial ? '-partial' : ''}`;
  const file = path.join(folder, `${results.date.slice(0, 10)}-node${major}${suffix}.json`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, fileText(results));
  return file;
}

/**
 * The row of a subject; undefined if the workload or the subject was not measured.
 *
 * @param {Results} results
 * @param {string} workloadName
 * @param {string} subjectName
 */
export function measured(results, workloadName, subjectName) {
  const workload = results.workloads.find(({ name }) => name === workloadName);
  return workload?.rows.find(({ subject, status }) => subject === subjectName && status === 'measured');
}

/**
 * @param {MeasuredRow} row
 * @param {string} metric
 */
export function valuesOf(row, metric) {
  return row.rounds.flatMap((figures) => figures[metric] ?? []);
}

/**
 * The figure to show for a row; undefined if it has none.
 *
 * @param {MeasuredRow} row
 * @param {string} metric
 */
export function figureOf(row, metric) {
  const values = valuesOf(row, metric);
  if (values.length === 0) return undefined;
  const { worst } = metrics[metric];
  const of = summary(values);
  return worst ? of.worst : of.median;
}

/**
 * One row's figure divided by another's in the same round, for each round that they have in common. If something slows
 * the whole machine for a while, it slows both sides of a round, because they are measured one right after the other.
 *
 * @param {MeasuredRow} row
 * @param {MeasuredRow} other
 * @param {string} metric
 */
export function ratiosOf(row, other, metric) {
  return row.rounds.flatMap((figures, round) => {
    const [figure, than] = [figures[metric], other.rounds[round]?.[metric]];
    return figure === undefined || than === undefined ? [] : [figure / than];
  });
}

/**
 * Their median; undefined if the rows have no round in common.
 *
 * @param {MeasuredRow} row
 * @param {MeasuredRow} other
 * @param {string} metric
 */
export function ratioOf(row, other, metric) {
  const ratios = ratiosOf(row, other, metric);
  return ratios.length === 0 ? undefined : summary(ratios).median;
}

/**
 * How many times worse a row is than another in the figure that counts for the workload; below 1 if it is better.
 *
 * @param {import('./metrics.mjs').Measured} workload
 * @param {MeasuredRow} row
 * @param {MeasuredRow} than
 */
export function timesWorse(workload, row, than) {
  const metric = primaryMetric(workload);
  return metrics[metric].better === 'lower' ? ratioOf(row, than, metric) : ratioOf(than, row, metric);
}
