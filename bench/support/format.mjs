const number = (value, fraction) =>
  value.toLocaleString('en', { minimumFractionDigits: fraction, maximumFractionDigits: fraction });

/** Three digits or so: more are noise. */
function digits(value) {
  const size = Math.abs(value);
  return number(value, size < 10 ? 2 : size < 100 ? 1 : 0);
}

const scaled = (value, steps) => {
  const [limit, unit] = steps.find(([limit]) => Math.abs(value) >= limit) ?? steps.at(-1);
  return `${digits(value / limit)}${unit}`;
};

const TIMES = [
  [1e9, ' s'],
  [1e6, ' ms'],
  [1e3, ' µs'],
  [1, ' ns'],
];
const RATES = [
  [1e6, ' M/s'],
  [1e3, ' k/s'],
  [1, ' /s'],
];
const BYTES = [[1, ' B']];

const formats = {
  ns: (value) => scaled(value, TIMES),
  rate: (value) => scaled(value, RATES),
  bytes: (value) => scaled(Math.round(value), BYTES),
  share: (value) => number(value, 2),
  times: (value) => `${digits(value)} ×`,
};

/** @param {keyof typeof formats} unit */
export function format(value, unit) {
  return Number.isFinite(value) ? formats[unit](value) : '–';
}
