// What the terminal shows.

import Table from 'cli-table3';
import { metrics, metricsOf } from './metrics.mjs';
import { figureOf, NATIVE, timesWorse, valuesOf } from './results.mjs';
import { format } from './support/format.mjs';
import { summary } from './support/statistics.mjs';

/** Columns without lines between them. */
const PLAIN = {
  chars: Object.fromEntries(
    'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle'
      .split(' ')
      .map((place) => [place, place === 'middle' ? '  ' : '']),
  ),
  style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
};

function plainTable(head, rows) {
  const table = new Table({ ...PLAIN, head, colAligns: ['left', ...head.slice(1).map(() => 'right')] });
  table.push(...rows);
  return table.toString();
}

/** @param {import('./results.mjs').MeasuredWorkload} workload */
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
      return [subject, { content: why, colSpan: head.length - 1, hAlign: 'left' }];
    }
    const spread = names.length > 0 ? summary(valuesOf(row, names[0])).spread : NaN;
    return [
      subject,
      ...names.map((metric) => format(figureOf(row, metric), metrics[metric].unit)),
      `${Math.round(spread)} %`,
      ...[floor, native].filter(Boolean).map((than) => format(timesWorse(workload, row, than), 'times')),
    ];
  });
  const notes = workload.rows
    .filter(miscounted)
    .map(({ subject, why }) => `  MISCOUNTED: ${subject}: ${why}`);
  return [plainTable(head, rows), ...notes].join('\n');
}

const miscounted = ({ status, why }) => status === 'measured' && why !== undefined;

/** @param {import('./targets.mjs').Outcome[]} outcomes */
export function targetTable(outcomes) {
  const verdict = { true: 'met', false: 'MISSED', undefined: 'not measured' };
  return plainTable(
    ['target', 'figure', ''],
    outcomes.map(({ target, figure, met }) => [target, figure, verdict[met]]),
  );
}

export function machineLine({ machine, versions, commit, dirty }) {
  const memory = `${Math.round(machine.memoryBytes / 2 ** 30)} GiB`;
  const at = commit === undefined ? '' : `, commit ${commit.slice(0, 10)}${dirty ? ' and changes' : ''}`;
  return `Node ${versions.node}, ${machine.cores} × ${machine.cpu}, ${memory}, ${machine.os}${at}`;
}
