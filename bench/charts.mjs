// node bench/charts.mjs <results.json>: draws the run's charts beside it, one for each group and figure.
//
// Each row is a workload, each mark a subject's median, each line its quartiles. If figures differ by more than a power
// of ten, the scale is logarithmic. Such a scale has no zero, so the charts use marks instead of bars.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as vega from 'vega';
import { compile } from 'vega-lite';
import { metrics } from './metrics.mjs';
import { valuesOf } from './results.mjs';
import { INK, LOOKS, RULE } from './support/palette.mjs';
import { summary } from './support/statistics.mjs';

const WIDTH = 460;
const ROW = 30;

/** How nanoseconds and bytes are shown. */
/** @type {Record<string, { labels: string }>} */
const AXES = {
  ns: {
    labels:
      "datum.value >= 1e9 ? format(datum.value / 1e9, '~r') + ' s' : datum.value >= 1e6 ? format(datum.value / 1e6, '~r') + ' ms' : datum.value >= 1e3 ? format(datum.value / 1e3, '~r') + ' µs' : format(datum.value, '~r') + ' ns'",
  },
  rate: { labels: "format(datum.value, '~s') + '/s'" },
  bytes: { labels: "format(datum.value, ',') + ' B'" },
};

/**
 * @typedef {object} Chart
 * @property {string} file
 * @property {string} group
 * @property {string} metric
 * @property {string} title
 * @property {readonly string[]} [workloads] Only these, and no floors.
 * @property {readonly string[]} [bars] A bar for each of these subjects, with its figure, for a reader in a hurry: the first
 *   is the package's own.
 *
 * @typedef {object} Point One for each mark.
 * @property {string} workload
 * @property {string} subject
 * @property {number} median
 * @property {number} low
 * @property {number} high
 */

/** @type {readonly Chart[]} */
const charts = [
  { file: 'uncontended', group: 'uncontended', metric: 'nsPerOp', title: 'Free lock: time per operation' },
  {
    file: 'overview',
    group: 'uncontended',
    metric: 'nsPerOp',
    title: 'To await a free lock, and release it',
    workloads: ['async, hot string key'],
    bars: ['KeyedLock native', 'async-lock', 'async-mutex', 'web-locks', 'Node locks'],
  },
  {
    file: 'combinations',
    group: 'combinations',
    metric: 'nsPerOp',
    title: 'Keys out of many, alone and in new sets: time per operation',
  },
  {
    file: 'contended-sync',
    group: 'contended sync',
    metric: 'opsPerSecond',
    title: 'Blocking threads: operations per second',
  },
  {
    file: 'contended-sync-p999',
    group: 'contended sync',
    metric: 'p999',
    title: 'Blocking threads: p99.9 wait',
  },
  {
    file: 'contended-async',
    group: 'contended async',
    metric: 'opsPerSecond',
    title: 'Requests in flight: operations per second',
  },
  {
    file: 'crowds',
    group: 'contended async',
    metric: 'opsPerSecond',
    title: 'Tasks of one thread at one key: operations per second',
    workloads: ['1', '2', '10', '100', '1,000', '10,000'].map(
      (tasks) => `async, 1 thread, 1 key, ${tasks} in flight`,
    ),
  },
  {
    file: 'hand-over',
    group: 'hand-over',
    metric: 'handOver50',
    title: 'Hand-over to a waiting thread: median latency',
  },
  { file: 'waiters-memory', group: 'waiters', metric: 'totalBytes', title: 'Resident memory of a waiter' },
  {
    file: 'waiters-free-key',
    group: 'waiters',
    metric: 'unrelatedNs',
    title: 'Another key while 100,000 wait',
  },
  { file: 'waiters-cancel', group: 'waiters', metric: 'cancelNs', title: 'Cancelling a waiter' },
  {
    file: 'web-locks',
    group: 'web locks',
    metric: 'nsPerOp',
    title: 'Web locks in one thread: time per request',
  },
  {
    file: 'web-locks-threads',
    group: 'web locks',
    metric: 'opsPerSecond',
    title: 'Web locks in four threads: requests per second',
  },
  {
    file: 'first-lock',
    group: 'first',
    metric: 'firstLockNs',
    title: 'The first lock of a process or of a worker',
  },
  { file: 'leases', group: 'leases', metric: 'nsPerOp', title: 'Leases in memory: time per operation' },
  {
    file: 'stores',
    group: 'stores',
    metric: 'opsPerSecond',
    title: 'Leases in stores: acquired and released per second',
  },
];

/**
 * @param {import('./results.mjs').Results} results
 * @param {Chart} chart
 * @returns {Point[]}
 */
function points(results, { group, metric, workloads }) {
  return results.workloads
    .filter((workload) => workload.group === group && (workloads?.includes(workload.name) ?? true))
    .flatMap((workload) => workload.rows.map((row) => ({ workload, row, values: valuesOf(row, metric) })))
    .filter(({ row }) => workloads === undefined || row.floor !== true)
    .filter(({ row, values }) => row.status === 'measured' && values.length > 0)
    .map(({ workload, row, values }) => {
      const { median, low, high } = summary(values);
      return { workload: workload.name, subject: row.subject, median, low, high };
    })
    .filter(({ low }) => low > 0);
}

/**
 * From the power just below the least to the one just above the most.
 *
 * @param {number} least
 * @param {number} most
 */
function powersOfTen(least, most) {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

/** A floor's name says that it is one. */
const lookOf = (/** @type {string} */ subject) => LOOKS[subject] ?? LOOKS.floor;

/**
 * What all charts have around them.
 *
 * @param {string} title
 * @param {string} subtitle
 */
const frameOf = (title, subtitle) => ({
  width: WIDTH,
  height: { step: ROW },
  background: 'transparent',
  padding: 8,
  title: {
    text: title,
    subtitle,
    anchor: /** @type {const} */ ('start'),
    color: INK,
    subtitleColor: INK,
    offset: 12,
  },
});

/**
 * @param {string} title
 * @param {string} subtitle
 * @param {string} metric
 * @param {readonly Point[]} data
 * @returns {import('vega-lite').TopLevelSpec}
 */
function specification(title, subtitle, metric, data) {
  const named = [...new Set(data.map(({ subject }) => subject))];
  const subjects = [...named.filter((name) => name in LOOKS), ...named.filter((name) => !(name in LOOKS))];
  const rows = [...new Set(data.map(({ workload }) => workload))];
  const looks = subjects.map(lookOf);
  const unit = AXES[metrics[metric].unit];
  const [least, most] = [Math.min(...data.map(({ low }) => low)), Math.max(...data.map(({ high }) => high))];
  const logarithmic = most / least > 10;
  const legend = {
    title: null,
    orient: /** @type {const} */ ('bottom'),
    columns: 2,
    symbolSize: 80,
    symbolOpacity: 1,
  };
  const color = { field: 'subject', scale: { domain: subjects, range: looks.map(({ color }) => color) } };
  return {
    ...frameOf(title, subtitle),
    // The first in the legend is drawn last, on top of the others.
    data: { values: data.toReversed() },
    config: {
      font: 'system-ui, sans-serif',
      view: { stroke: null },
      axis: {
        labelColor: INK,
        titleColor: INK,
        gridColor: RULE,
        domain: false,
        tickColor: RULE,
        labelLimit: 420,
      },
      legend: { labelColor: INK, labelLimit: 0 },
    },
    encoding: {
      y: { field: 'workload', type: 'nominal', sort: rows, title: null, axis: { grid: true } },
    },
    layer: [
      {
        mark: { type: 'rule', strokeWidth: 2, opacity: 0.6 },
        encoding: {
          color: { ...color, legend },
          x: {
            field: 'low',
            type: 'quantitative',
            scale: { type: logarithmic ? 'log' : 'linear', nice: true, ...(!logarithmic && { zero: true }) },
            title: `${metrics[metric].better} is better`,
            axis: {
              labelExpr: unit.labels,
              labelOverlap: true,
              ...(logarithmic ? { values: powersOfTen(least, most) } : { tickCount: 5 }),
            },
          },
          x2: { field: 'high' },
        },
      },
      {
        mark: { type: 'point', filled: true, size: 80, opacity: 1 },
        encoding: {
          x: { field: 'median', type: 'quantitative' },
          color: { ...color, legend },
          shape: {
            field: 'subject',
            scale: { domain: subjects, range: looks.map(({ shape }) => shape) },
            legend,
          },
        },
      },
    ],
  };
}

/**
 * @param {string} title
 * @param {string} subtitle
 * @param {string} metric
 * @param {readonly Point[]} data
 * @param {readonly string[]} subjects
 * @returns {import('vega-lite').TopLevelSpec}
 */
function barSpecification(title, subtitle, metric, data, subjects) {
  const [own] = subjects;
  const shown = { field: 'median', type: /** @type {const} */ ('quantitative') };
  return {
    ...frameOf(title, subtitle),
    data: { values: data.filter(({ subject }) => subjects.includes(subject)) },
    transform: [{ calculate: `format(datum.median, '.0f') + ' ${metrics[metric].unit}'`, as: 'figure' }],
    config: { font: 'system-ui, sans-serif', view: { stroke: null } },
    encoding: {
      y: {
        field: 'subject',
        type: 'nominal',
        sort: [...subjects],
        title: null,
        axis: { domain: false, ticks: false, labelColor: INK, labelFontSize: 13, labelPadding: 8 },
      },
      color: {
        condition: { test: `datum.subject === '${own}'`, value: LOOKS['stripelock native'].color },
        value: INK,
      },
    },
    layer: [
      { mark: { type: 'bar', height: 18 }, encoding: { x: { ...shown, axis: null } } },
      {
        mark: { type: 'text', align: 'left', dx: 6, fontSize: 13 },
        encoding: { x: shown, text: { field: 'figure', type: 'nominal' } },
      },
    ],
  };
}

/**
 * @param {import('vega-lite').TopLevelSpec} specificationOfChart
 * @returns {Promise<string>} SVG.
 */
function draw(specificationOfChart) {
  const view = new vega.View(vega.parse(compile(specificationOfChart).spec), { renderer: 'none' });
  return view.toSVG();
}

/**
 * @param {import('./results.mjs').Results} results
 * @param {string} folder
 * @param {string} prefix Of the files' names.
 * @returns {Promise<string[]>} The files written.
 */
export async function drawCharts(results, folder, prefix) {
  const { machine, versions, date } = results;
  const subtitle = `Node ${versions.node}, ${machine.cores} × ${machine.cpu}, ${date.slice(0, 10)}`;
  const files = [];
  for (const chart of charts) {
    const data = points(results, chart);
    if (data.length === 0) continue;
    const file = path.join(folder, `${prefix}-${chart.file}.svg`);
    const { title, metric, bars } = chart;
    const drawn =
      bars === undefined
        ? specification(title, subtitle, metric, data)
        : barSpecification(title, subtitle, metric, data, bars);
    writeFileSync(file, await draw(drawn));
    files.push(file);
  }
  return files;
}

if (process.argv[1] === import.meta.filename) {
  const [, , file] = process.argv;
  if (file === undefined) {
    console.error('usage: node bench/charts.mjs <results.json>');
    process.exitCode = 1;
  } else {
    const results = JSON.parse(readFileSync(file, 'utf8'));
    const drawn = await drawCharts(results, path.dirname(file), path.basename(file, '.json'));
    for (const name of drawn) console.log(name);
  }
}
