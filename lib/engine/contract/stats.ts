import type { StripedLockStats } from '../../common/types.js';
import type { EngineName } from './engine.js';
import { METRIC_CELLS } from './layout.js';

type Metrics = { -readonly [Name in keyof typeof METRIC_CELLS]: number };
const metricCells = Object.entries(METRIC_CELLS) as [keyof Metrics, number][];

/**
 * Creates the result of `stats()`. `held`: the number of held stripes, according to their words. The metrics
 * come from the cells of the header, which all threads update. This code does not compile if
 * `StripedLockStats` has a metric without a cell.
 */
export function readStats(
  engine: EngineName,
  stripes: number,
  held: number,
  cells: BigInt64Array,
): StripedLockStats {
  const metrics = {} as Metrics;
  for (const [name, cell] of metricCells) metrics[name] = Number(Atomics.load(cells, cell));
  // With the native engine, the cell can be negative: a waiter may be granted before its own thread has
  // counted it.
  metrics.waiting = Math.max(0, metrics.waiting);
  return { engine, stripes, held, ...metrics };
}
