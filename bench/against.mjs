// Compares two builds of stripelock in one run: this checkout's and the one in another folder. The benchmarks of this
// checkout measure both, alternately, each round in a separate process. So only the builds differ.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { metrics, primaryMetric } from './metrics.mjs';
import { ratiosOf } from './results.mjs';
import { rowsOf } from './schedule.mjs';
import { summary } from './support/statistics.mjs';

/** @typedef {import('./schedule.mjs').MeasuredRow} MeasuredRow */

/**
 * @typedef {object} Comparison Of one subject in one workload.
 * @property {string} subject
 * @property {string | undefined} why What went wrong, if anything did.
 * @property {MeasuredRow} here
 * @property {MeasuredRow} other
 * @property {readonly number[]} rounds How many times as good this checkout is as the other, by round. Above 1 it is
 *   better in the figure that counts for the workload.
 * @property {number | undefined} ratio Their median.
 */

const here = path.resolve(import.meta.dirname, '..');

/**
 * @param {string} folder Relative to the working directory.
 * @returns {string} The folder whose build is compared with.
 * @throws {Error} If there is none.
 */
export function otherBuild(folder) {
  const other = path.resolve(folder);
  if (!existsSync(path.join(other, 'dist')))
    throw new Error(`${other} has no build: run \`npm run build\` there`);
  return other;
}

/**
 * All subjects of a workload that use stripelock, once for each build.
 *
 * @param {import('./workloads/index.mjs').Workload} workload
 * @param {string} other
 */
export function rowsAgainst(workload, other) {
  return rowsOf(workload)
    .filter(({ subject, status }) => subject.packages.includes('stripelock') && status === 'measured')
    .flatMap((row) => [here, other].map((folder) => ({ ...row, folder, rounds: [] })));
}

/**
 * @param {import('./results.mjs').MeasuredWorkload} workload As measured with {@link rowsAgainst}.
 * @returns {Comparison[]}
 */
export function compare(workload) {
  const metric = primaryMetric(workload);
  const lower = metrics[metric]?.better === 'lower';
  return pairs(workload.rows).map(([mine, other]) => {
    const rounds = lower ? ratiosOf(other, mine, metric) : ratiosOf(mine, other, metric);
    const whys = [mine, other].map((row) => row.why && `${row === mine ? 'here' : 'there'}: ${row.why}`);
    return {
      subject: mine.subject,
      why: whys.filter(Boolean).join('; ') || undefined,
      here: mine,
      other,
      rounds,
      ratio: rounds.length === 0 ? undefined : summary(rounds).median,
    };
  });
}

/**
 * @param {readonly MeasuredRow[]} rows
 * @returns {[here: MeasuredRow, other: MeasuredRow][]}
 */
function pairs(rows) {
  return rows.flatMap((row, i) => {
    const other = rows[i + 1];
    return i % 2 === 0 && other !== undefined
      ? [/** @type {[MeasuredRow, MeasuredRow]} */ ([row, other])]
      : [];
  });
}
