// The targets of web locks.

import { floors } from './subjects/floors.mjs';
import { nodeLocks } from './subjects/node-locks.mjs';
import { stripelockWebLocks } from './subjects/stripelock-web-locks.mjs';

const AWAIT = floors.bareAwait.name;
const OURS = stripelockWebLocks.name;
const NODES = nodeLocks.name;
const MEMORY = 'web locks, memory of a waiter, 100,000 waiting';
const DEAD_HOLDER = 'web locks, from a terminated holder to the next';

/**
 * @typedef {import('./targets.mjs').Target} Target
 * @typedef {object} Kinds Of targets.
 * @property {(target: string, holds: (ratio: number) => boolean, rows: { metric: string, over: readonly [string, string], under: readonly [string, string] }) => Target} ratioTarget
 * @property {(target: string, workload: string, metric: string, unit: import('./metrics.mjs').Metric['unit'], holds: (figure: number) => boolean, subject: string) => Target} figureTarget
 */

/**
 * @param {Kinds} kinds
 * @returns {Target[]}
 */
export function webLockTargets({ ratioTarget, figureTarget }) {
  /** At least `limit` times as fast as Node's own, or that many times as much. */
  const overNode = (/** @type {number} */ limit, /** @type {string} */ workload) => {
    const rate = workload.includes('threads');
    return ratioTarget(`${workload}: at least ${limit} × ${NODES}`, (ratio) => ratio >= limit, {
      metric: rate ? 'opsPerSecond' : 'nsPerOp',
      over: [workload, rate ? OURS : NODES],
      under: [workload, rate ? NODES : OURS],
    });
  };
  const inAwaits = (/** @type {number} */ limit, /** @type {string} */ workload) =>
    ratioTarget(`${workload}: at most ${limit} × ${AWAIT}`, (ratio) => ratio <= limit, {
      metric: 'nsPerOp',
      over: [workload, OURS],
      under: [workload, AWAIT],
    });
  return [
    ...['a callback that returns nothing', 'a callback that returns a promise'].flatMap((name) => [
      inAwaits(4, `web locks, ${name}`),
      overNode(9, `web locks, ${name}`),
    ]),
    inAwaits(5, 'web locks, with a live signal'),
    overNode(12, 'web locks, 8 nested names'),
    overNode(10, 'web locks, 4 threads, 64 names, 1 in flight'),
    overNode(10, 'web locks, 4 threads, 64 names, 100 in flight'),
    figureTarget(
      `${MEMORY}: at most 600 bytes`,
      MEMORY,
      'totalBytes',
      'bytes',
      (bytes) => bytes <= 600,
      OURS,
    ),
    figureTarget(
      `${DEAD_HOLDER}: at most 20 ms in the median`,
      DEAD_HOLDER,
      'deadHolder50',
      'ns',
      (nanoseconds) => nanoseconds <= 20e6,
      OURS,
    ),
  ];
}
