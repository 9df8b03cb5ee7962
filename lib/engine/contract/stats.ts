import type { StripedLockStats } from '../../common/types.js';
import type { EngineName } from './engine.js';
import {
  ABANDONED_CELL,
  ABORTS_CELL,
  CONTENDED_CELL,
  DEADLOCKS_CELL,
  TIMEOUTS_CELL,
  WAITING_CELL,
} from './layout.js';

/** The counters that all threads keep in the lock's memory; `held` comes from its words. */
export function readStats(
  engine: EngineName,
  stripes: number,
  held: number,
  cells: BigInt64Array,
): StripedLockStats {
  const read = (cell: number): number => Number(Atomics.load(cells, cell));
  return {
    engine,
    stripes,
    held,
    waiting: read(WAITING_CELL),
    contended: read(CONTENDED_CELL),
    timeouts: read(TIMEOUTS_CELL),
    aborts: read(ABORTS_CELL),
    deadlocks: read(DEADLOCKS_CELL),
    abandoned: read(ABANDONED_CELL),
  };
}
