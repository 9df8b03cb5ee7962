// The output on the terminal.

import Table from 'cli-table3';
import { metrics, metricsOf, primaryMetric } from './metrics.mjs';
import { figureOf, NATIVE, timesWorse, valuesOf } from './results.mjs';
import { format } from './support/format.mjs';
import { summary } from './support/statistics.mjs';

/** @typedef {import('./results.mjs').MeasuredWorkload} MeasuredWorkload */
/** @typedef {import('./schedule.mjs').MeasuredRow} MeasuredRow */

/** Columns without lines between them. */
const PLAIN = {
  chars: Object.fromEntries(
    'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle'
      .split(' ')
      .map((place) => [place, place === 'middle' ? '  ' : '']),
  ),
  style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
};

/**
 * @param {string[]} head
 * @param {import('cli-table3').HorizontalTableRow[]} rows
 */
function plainTable(head, rows) {
  const table = new Table({ ...PLAIN, head, colAligns: ['left', ...head.slice(1).map(rightAligned)] });
  table.push(...rows);
  return table.toString();
}

const rightAligned = () => /** @type {const} */ ('right');

/** @param {MeasuredWorkload} workload */
export function workloadTable(workload) {
  const native = workload.rows.find(({ subject, status }) => subject === NATIVE && status === 'measured');
  const names = metricsOf(workload).filter((metric) =>
    workload.rows.some((row) => figureOf(row, metric) !== undefined),
  );
  const floor = workload.rows.find((row) => row.floor && row.status === 'measured');
  const head = [
    workload.name,
    ...names.map((metric) => metrics[metric].title),
    '±',
    ...(floor ? ['× floor'] : []),
    ...(native ? ['× native'] : []),
  ];
  const rows = workload.rows.map((row) => {
    const subject = `  ${row.subject}${miscounted(row) ? ' (MISCOUNTED)' : ''}`;
    if (row.status !== 'measured') {
      const why = row.status === 'cannot' ? `cannot: ${row.why}` : `FAILED: ${row.why}`;
      return [subject, spanning(why, head.length - 1)];
    }
    const spread = names[0] === undefined ? NaN : summary(valuesOf(row, names[0])).spread;
    return [
      subject,
      ...names.map((metric) => format(figureOf(row, metric), metrics[metric].unit)),
      `${Math.round(spread)} %`,
      ...[floor, native].flatMap((than) => (than ? [format(timesWorse(workload, row, than), 'times')] : [])),
    ];
  });
  const notes = workload.rows
    .filter(miscounted)
    .map(({ subject, why }) => `  MISCOUNTED: ${subject}: ${why}`);
  return [plainTable(head, rows), ...notes].join('\n');
}

/**
 * @param {string} content
 * @param {number} colSpan
 */
const spanning = (content, colSpan) => ({ content, colSpan, hAlign: /** @type {const} */ ('left') });

/** @param {MeasuredRow} row */
const miscounted = ({ status, why }) => status === 'measured' && why !== undefined;

/**
 * Two builds side by side: above 1 × this checkout is better, in each of the rounds and at their median.
 *
 * @param {MeasuredWorkload} workload
 * @param {readonly import('./against.mjs').Comparison[]} comparisons
 */
export function comparisonTable(workload, comparisons) {
  const metric = primaryMetric(workload);
  const { title, unit } = metrics[metric];
  const head = [workload.name, `${title} here`, 'there', 'times as good', 'by round'];
  const rows = comparisons.map(({ subject, why, here, other, rounds, ratio }) =>
    why === undefined
      ? [
          `  ${subject}`,
          ...[here, other].map((row) => format(figureOf(row, metric), unit)),
          format(ratio, 'times'),
          rounds.map((round) => format(round, 'share')).join(' '),
        ]
      : [`  ${subject}`, spanning(`FAILED ${why}`, head.length - 1)],
  );
  return plainTable(head, rows);
}

/** @param {readonly import('./targets.mjs').Outcome[]} outcomes */
export function targetTable(outcomes) {
  return plainTable(
    ['target', 'figure', ''],
    outcomes.map(({ target, figure, met }) => [
      target,
      figure,
      met === undefined ? 'not measured' : met ? 'met' : 'MISSED',
    ]),
  );
}

/** @param {Pick<import('./results.mjs').Results, 'machine' | 'versions' | 'commit' | 'dirty'>} results */
export function machineLine({ machine, versions, commit, dirty }) {
  const memory = `${Math.round(machine.memoryBytes / 2 ** 30)} GiB`;
  const at = commit === undefined ? '' : `, commit ${commit.slice(0, 10)}${dirty ? ' and changes' : ''}`;
  return `Node ${versions.node}, ${machine.cores} × ${machine.cpu}, ${memory}, ${machine.os}${at}`;
}
