import { median, quantile } from 'simple-statistics';

/**
 * Summarises a figure over several rounds: its median, its quartiles, and half their distance in percent of the median.
 * Not the mean and its deviation, because a single disturbed round would move both.
 *
 * @param {readonly number[]} values At least one.
 */
export function summary(values) {
  const middle = median(values);
  const [low, high] = quantile(values, [0.25, 0.75]);
  return {
    median: middle,
    low,
    high,
    best: Math.min(...values),
    worst: Math.max(...values),
    spread: middle === 0 ? 0 : (50 * (high - low)) / Math.abs(middle),
  };
}
