/**
 * @param {number} value
 * @param {number} fraction Digits.
 */
const number = (value, fraction) =>
  value.toLocaleString('en', { minimumFractionDigits: fraction, maximumFractionDigits: fraction });

/**
 * Three digits or so: more are noise.
 *
 * @param {number} value
 */
function digits(value) {
  const size = Math.abs(value);
  return number(value, size < 10 ? 2 : size < 100 ? 1 : 0);
}

/**
 * @param {number} value
 * @param {readonly Step[]} steps From the largest down.
 */
const scaled = (value, steps) => {
  const [limit, unit] = steps.find(([limit]) => Math.abs(value) >= limit) ?? steps[steps.length - 1];
  return `${digits(value / limit)}${unit}`;
};

/** @typedef {[limit: number, unit: string]} Step */

/** @type {Step[]} */
const TIMES = [
  [1e9, ' s'],
  [1e6, ' ms'],
  [1e3, ' µs'],
  [1, ' ns'],
];
/** @type {Step[]} */
const RATES = [
  [1e6, ' M/s'],
  [1e3, ' k/s'],
  [1, ' /s'],
];
/** @type {Step[]} */
const BYTES = [[1, ' B']];

/** @type {Record<import('../metrics.mjs').Metric['unit'], (value: number) => string>} */
const formats = {
  ns: (value) => scaled(value, TIMES),
  rate: (value) => scaled(value, RATES),
  bytes: (value) => scaled(Math.round(value), BYTES),
  share: (value) => number(value, 2),
  times: (value) => `${digits(value)} ×`,
};

/**
 * @param {number | undefined} value
 * @param {keyof typeof formats} unit
 */
export function format(value, unit) {
  return value !== undefined && Number.isFinite(value) ? formats[unit](value) : '–';
}
