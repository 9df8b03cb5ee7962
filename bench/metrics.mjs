// What is measured, how it reads, and which figure of a workload counts.

/**
 * @typedef {object} Metric
 * @property {string} title
 * @property {'ns' | 'rate' | 'share' | 'bytes' | 'times'} unit See support/format.mjs.
 * @property {'lower' | 'higher'} [better]
 * @property {boolean} [worst] Of several rounds the worst is shown, not the median.
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
};

/** By runner: the metrics shown, the one that counts first. */
export const shown = {
  single: ['nsPerOp'],
  threads: ['opsPerSecond', 'p50', 'p99', 'p999', 'max', 'minShare'],
};

export const primaryMetric = (workload) => shown[workload.runner][0];
