// What is measured, how it is shown, and which figure of a workload counts.

/**
 * @typedef {object} Metric
 * @property {string} title
 * @property {'ns' | 'rate' | 'share' | 'bytes' | 'times'} unit See support/format.mjs.
 * @property {'lower' | 'higher'} [better]
 * @property {boolean} [worst] The worst of several rounds is shown, not the median.
 */

/** @type {Record<string, Metric>} */
export const metrics = {
  nsPerOp: { title: 'time/op', unit: 'ns', better: 'lower' },
  opsPerSecond: { title: 'ops/s', unit: 'rate', better: 'higher' },
  p50: { title: 'wait p50', unit: 'ns', better: 'lower' },
  p99: { title: 'p99', unit: 'ns', better: 'lower' },
  p999: { title: 'p99.9', unit: 'ns', better: 'lower' },
  max: { title: 'max', unit: 'ns', better: 'lower', worst: true },
  minShare: { title: 'least/mean share', unit: 'share', better: 'higher' },
  maxShare: { title: 'most/mean', unit: 'share', better: 'lower' },
  handOver50: { title: 'hand-over p50', unit: 'ns', better: 'lower' },
  handOver99: { title: 'p99', unit: 'ns', better: 'lower' },
  handOver999: { title: 'p99.9', unit: 'ns', better: 'lower' },
  handOverMax: { title: 'max', unit: 'ns', better: 'lower', worst: true },
  firstLockNs: { title: 'first lock', unit: 'ns', better: 'lower' },
  importNs: { title: 'import', unit: 'ns', better: 'lower' },
  deadHolder50: { title: 'wait p50', unit: 'ns', better: 'lower' },
  deadHolderMax: { title: 'max', unit: 'ns', better: 'lower', worst: true },
  processorShare: { title: 'of a processor', unit: 'share', better: 'lower' },
  totalBytes: { title: 'resident', unit: 'bytes', better: 'lower' },
  heapBytes: { title: 'JS heap', unit: 'bytes', better: 'lower' },
  nativeBytes: { title: 'native', unit: 'bytes', better: 'lower' },
  cancelNs: { title: 'time/waiter', unit: 'ns', better: 'lower' },
  cancelFewNs: { title: 'with 1,000 waiting', unit: 'ns', better: 'lower' },
  unrelatedNs: { title: 'time/op', unit: 'ns', better: 'lower' },
  aloneNs: { title: 'with none waiting', unit: 'ns', better: 'lower' },
  commandNs: { title: 'run -- true', unit: 'ns', better: 'lower' },
  bareNs: { title: 'node -e 0', unit: 'ns', better: 'lower' },
  overBare: { title: 'ratio', unit: 'times', better: 'lower' },
  growth: { title: 'growth', unit: 'times', better: 'lower' },
};

/**
 * The metrics shown for each runner, or for what it measures, the one that counts first.
 *
 * @type {Record<string, string[]>}
 */
const shown = {
  single: ['nsPerOp'],
  threads: ['opsPerSecond', 'p50', 'p99', 'p999', 'max', 'minShare'],
  clients: ['opsPerSecond', 'p50', 'p99', 'p999', 'max', 'minShare'],
  'hand-over': ['handOver50', 'handOver99', 'handOver999', 'handOverMax'],
  process: ['firstLockNs', 'importNs'],
  worker: ['firstLockNs', 'importNs'],
  command: ['overBare', 'commandNs', 'bareNs'],
  lockMemory: ['totalBytes', 'heapBytes', 'nativeBytes'],
  heldMemory: ['totalBytes', 'heapBytes', 'nativeBytes'],
  'dead-holder': ['deadHolder50', 'deadHolderMax'],
  grants: ['opsPerSecond', 'p50', 'p99', 'p999', 'max', 'minShare', 'maxShare'],
  released: ['handOver50', 'handOver99', 'handOver999', 'handOverMax'],
  killed: ['deadHolder50', 'deadHolderMax'],
  waiting: ['processorShare'],
  memory: ['totalBytes', 'heapBytes', 'nativeBytes'],
  cancel: ['cancelNs', 'cancelFewNs', 'growth'],
  unrelatedAsync: ['unrelatedNs', 'aloneNs', 'growth'],
  unrelatedSync: ['unrelatedNs', 'aloneNs', 'growth'],
};

/**
 * @typedef {object} Measured
 * @property {import('./workloads/index.mjs').Workload['runner']} runner
 * @property {import('./workloads/index.mjs').Measure | undefined} [measure]
 */

/** @param {Measured} workload */
export const metricsOf = ({ runner, measure }) => shown[measure ?? runner];

/** Metrics that pages and charts show besides the one that counts. */
const ALSO_KEPT = ['p999', 'minShare'];

/**
 * The metrics that a file of results keeps. The tables on the terminal show all.
 *
 * @param {Measured} workload
 */
export const keptMetrics = (workload) =>
  metricsOf(workload).filter((name, i) => i === 0 || ALSO_KEPT.includes(name));

/** @param {Measured} workload */
export const primaryMetric = (workload) => metricsOf(workload)[0];
