// The targets of the native engine, as ratios within one run, and whether a run met them.

import { figureOf, JAVASCRIPT, measured, NATIVE, ratioOf, timesWorse, valuesOf } from './results.mjs';
import { floors } from './subjects/floors.mjs';
import { processLockTargets } from './process-lock-targets.mjs';
import { storeTargets } from './store-targets.mjs';
import { format } from './support/format.mjs';
import { webLockTargets } from './web-lock-targets.mjs';

const PAIR = floors.compareExchange.name;
const AWAIT = floors.bareAwait.name;
const ABORT_SIGNAL = floors.abortSignal.name;

/**
 * @typedef {object} Outcome
 * @property {string} target
 * @property {string} figure
 * @property {boolean | undefined} met Undefined if the run did not measure what it needs.
 */

/**
 * @typedef {import('./results.mjs').Results} Results
 * @typedef {(results: Results) => Outcome} Target
 * @typedef {readonly [workload: string, subject: string]} Place Of a row.
 */

/**
 * @callback Limited A target with a limit to a ratio.
 * @param {number} limit
 * @param {string} workload
 * @param {string} other A subject.
 * @param {string} [otherWorkload] The other's, if it is not the same.
 * @returns {Target}
 */

/**
 * Native takes at most `limit` times as long as another in the same workload.
 *
 * @type {Limited}
 */
const atMost = (limit, workload, other) =>
  ratioTarget(`${workload}: at most ${limit} × ${other}`, (ratio) => ratio <= limit, {
    metric: 'nsPerOp',
    over: [workload, NATIVE],
    under: [workload, other],
  });

/**
 * Native is at least `limit` times as fast, or does at least `limit` times as much.
 *
 * @type {Limited}
 */
const atLeast = (limit, workload, other, otherWorkload = workload) => {
  const rate = workload.includes('thread');
  /** @type {Place[]} */
  const [native, rival] = [
    [workload, NATIVE],
    [otherWorkload, other],
  ];
  const what = otherWorkload === workload ? other : `${other}'s "${otherWorkload}"`;
  return ratioTarget(`${workload}: at least ${limit} × ${what}`, (ratio) => ratio >= limit, {
    metric: rate ? 'opsPerSecond' : 'nsPerOp',
    over: rate ? native : rival,
    under: rate ? rival : native,
  });
};

/**
 * @param {string} target
 * @param {(ratio: number) => boolean} holds
 * @param {{ metric: string, over: Place, under: Place }} rows
 * @returns {Target}
 */
function ratioTarget(target, holds, { metric, over, under }) {
  return (results) => {
    const [row, other] = [measured(results, ...over), measured(results, ...under)];
    const ratio = row && other && ratioOf(row, other, metric);
    if (ratio === undefined) return { target, figure: '–', met: undefined };
    return { target, figure: format(ratio, 'times'), met: holds(ratio) };
  };
}

/**
 * A figure of one subject's own.
 *
 * @param {string} target
 * @param {string} workload
 * @param {string} metric
 * @param {import('./metrics.mjs').Metric['unit']} unit
 * @param {(figure: number) => boolean} holds
 * @param {string} [subject]
 * @returns {Target}
 */
const figureTarget =
  (target, workload, metric, unit, holds, subject = NATIVE) =>
  (results) => {
    const row = measured(results, workload, subject);
    const figure = row && figureOf(row, metric);
    if (figure === undefined) return { target, figure: '–', met: undefined };
    return { target, figure: format(figure, unit), met: holds(figure) };
  };

/**
 * Native takes at most `limit` times as long as itself in another workload.
 *
 * @param {number} limit
 * @param {string} workload
 * @param {string} other
 */
const timesOwn = (limit, workload, other) =>
  ratioTarget(`${workload}: at most ${limit} × "${other}"`, (ratio) => ratio <= limit, {
    metric: 'nsPerOp',
    over: [workload, NATIVE],
    under: [other, NATIVE],
  });

/**
 * Every workload that both engines were measured in; the figure names the worst.
 *
 * @type {Target}
 */
function noSlowerThanJavaScript(results) {
  const least = 0.95;
  const target = `every workload but the first locks: at least ${least} × ${JAVASCRIPT}`;
  const compared = results.workloads.flatMap((workload) => {
    // Only one of them loads an addon.
    if (workload.group === 'first') return [];
    const [javascript, native] = [JAVASCRIPT, NATIVE].map((subject) =>
      measured(results, workload.name, subject),
    );
    const times = javascript && native && timesWorse(workload, javascript, native);
    return times === undefined ? [] : [{ name: workload.name, times }];
  });
  if (compared.length === 0) return { target, figure: '–', met: undefined };
  const missed = compared.filter(({ times }) => times < least);
  const worst = compared.reduce((a, b) => (b.times < a.times ? b : a));
  const count = missed.length === 0 ? '' : `${missed.length} of ${compared.length} below; `;
  return {
    target,
    figure: `${count}least ${format(worst.times, 'times')} in "${worst.name}"`,
    met: missed.length === 0,
  };
}

/**
 * Throughput does not count if one thread gets it while another gets nothing. Even shares are not promised, but a
 * thread that gets less than a hundredth of its share over a whole window is starved.
 *
 * @type {Target}
 */
function nobodyStarves(results) {
  const least = 0.01;
  const target = `every workload with threads: each gets at least ${least} of an even share`;
  const shares = results.workloads.flatMap(({ name }) => {
    const row = measured(results, name, NATIVE);
    const values = row === undefined ? [] : valuesOf(row, 'minShare');
    return values.length === 0 ? [] : [{ name, share: Math.min(...values) }];
  });
  if (shares.length === 0) return { target, figure: '–', met: undefined };
  const worst = shares.reduce((a, b) => (b.share < a.share ? b : a));
  return {
    target,
    figure: `least ${format(worst.share, 'share')} in "${worst.name}"`,
    met: worst.share >= least,
  };
}

const HOT = 'sync, hot string key';
const INTEGER = 'sync, integer key';
const EIGHT = 'sync, 8 hot keys';
const ASYNC = 'async, hot string key';
const LOOKED_AT = 'looked at: sync, 8 threads, 1024 stripes, 5 µs section, zipf, 4 keys';
const SHORT = 'sync, 2 threads, 1 stripe, 100 ns section, uniform';
const CROWD = 'sync, 8 threads, 16 stripes, 5 µs section, uniform';

const QUEUE = 'queue of promises';
/** Tasks of one thread. */
const crowdsOf = (/** @type {string} */ keys) =>
  ['2', '10', '100', '1,000', '10,000'].map((tasks) => `async, 1 thread, ${keys}, ${tasks} in flight`);
const CROWDS = crowdsOf('1 key');
const CROWDS_OF_64 = crowdsOf('64 keys');
const PROCESS = 'import, and the first lock of a process';
const WORKER = 'import, and the first lock of a worker, not the first worker';

const LEASE = 'lease, acquire + release';
const MEMORY = 'memory of a waiter, 100,000 waiting';
const CANCEL = 'cancel a waiter, 100,000 waiting';
const UNRELATED_ASYNC = 'an unrelated free key, 100,000 waiting, async';
const UNRELATED_SYNC = 'an unrelated free key, 100,000 waiting, sync';

/**
 * How much a cost may grow if it does not depend on the number of waiters. A hundred times as many objects no longer
 * fit into the processor's caches. A search through them would grow a hundredfold.
 */
const constant = (/** @type {number} */ growth) => growth <= 2;
/** How much two measurements of the same thing may differ. */
const same = (/** @type {number} */ growth) => growth <= 1.1;

/** @type {readonly Target[]} */
const targets = [
  atMost(1.9, HOT, PAIR),
  atMost(1, HOT, 'Atomics mutex'),
  atMost(1.4, INTEGER, PAIR),
  atMost(1.7, EIGHT, PAIR),
  atLeast(1.7, EIGHT, 'Atomics mutex'),
  atLeast(6, EIGHT, 'async-lock', 'async, 8 hot keys'),
  atMost(1.7, 'sync, 1 of 1000 keys', PAIR),
  atMost(1.7, 'sync, 1 of 1000 keys, in a program that uses all of the lock', PAIR),
  ...['1000', '20,000'].flatMap((keys) => [
    timesOwn(2.1, `sync, 2 of ${keys} keys, new sets`, `sync, 1 of ${keys} keys`),
    timesOwn(5, `sync, 8 of ${keys} keys, new sets`, `sync, 1 of ${keys} keys`),
  ]),
  atMost(2, ASYNC, AWAIT),
  atLeast(2.5, ASYNC, 'async-mutex'),
  atLeast(1.5, ASYNC, 'async-lock'),
  atLeast(25, ASYNC, 'Node locks'),
  atLeast(2, SHORT, JAVASCRIPT),
  ratioTarget(`${SHORT}: p99.9 wait at most 1 × ${JAVASCRIPT}`, (ratio) => ratio <= 1, {
    metric: 'p999',
    over: [SHORT, NATIVE],
    under: [SHORT, JAVASCRIPT],
  }),
  atLeast(1.3, CROWD, JAVASCRIPT),
  figureTarget(
    `${CROWD}: least share at least half the mean`,
    CROWD,
    'minShare',
    'share',
    (share) => share >= 0.5,
  ),
  atLeast(20, 'async, 4 threads, 64 keys, 1 in flight', 'Node locks'),
  atLeast(20, 'async, 4 threads, 64 keys, 100 in flight', 'Node locks'),
  atLeast(20, 'async, 4 threads, 64 keys, 1 in flight, no await under the lock', 'Node locks'),
  atLeast(20, 'async, 4 threads, 64 keys, 100 in flight, no await under the lock', 'Node locks'),
  ...CROWDS.map((crowd) => atLeast(0.67, crowd, QUEUE)),
  ...[...CROWDS, ...CROWDS_OF_64].flatMap((crowd) => [
    atLeast(1, crowd, 'async-lock'),
    ratioTarget(`${crowd}: p99 wait at most 1 × async-lock`, (ratio) => ratio <= 1, {
      metric: 'p99',
      over: [crowd, NATIVE],
      under: [crowd, 'async-lock'],
    }),
  ]),
  atLeast(10, 'async, 1 thread, 1 key, 1,000 in flight', 'Node locks'),
  figureTarget(`${PROCESS}: import at most 25 ms`, PROCESS, 'importNs', 'ns', (time) => time <= 25e6),
  figureTarget(`${WORKER}: import at most 25 ms`, WORKER, 'importNs', 'ns', (time) => time <= 25e6),
  figureTarget(`${PROCESS}: first lock at most 3 ms`, PROCESS, 'firstLockNs', 'ns', (time) => time <= 3e6),
  figureTarget(`${WORKER}: first lock at most 1 ms`, WORKER, 'firstLockNs', 'ns', (time) => time <= 1e6),
  figureTarget(
    `${MEMORY}: at most 300 bytes of native memory`,
    MEMORY,
    'nativeBytes',
    'bytes',
    (bytes) => bytes <= 300,
  ),
  ratioTarget(`${CANCEL}: grows from 1,000 as ${ABORT_SIGNAL} does`, constant, {
    metric: 'growth',
    over: [CANCEL, NATIVE],
    under: [CANCEL, ABORT_SIGNAL],
  }),
  figureTarget(`${UNRELATED_ASYNC}: at most 1.1 × with none`, UNRELATED_ASYNC, 'growth', 'times', same),
  figureTarget(`${UNRELATED_SYNC}: at most 1.1 × with none`, UNRELATED_SYNC, 'growth', 'times', same),
  ratioTarget(`${LEASE}: at most 150 × ${AWAIT}`, (ratio) => ratio <= 150, {
    metric: 'nsPerOp',
    over: [LEASE, 'lease: acquire + release, renewal off'],
    under: [LEASE, AWAIT],
  }),
  ratioTarget(`${LOOKED_AT}: a profile leaves at least 0.95 of the throughput`, (ratio) => ratio >= 0.95, {
    metric: 'opsPerSecond',
    over: [LOOKED_AT, 'stripelock native, profiled'],
    under: [LOOKED_AT, NATIVE],
  }),
  ...storeTargets({ ratioTarget, figureTarget }),
  ...webLockTargets({ ratioTarget, figureTarget }),
  ...processLockTargets({ ratioTarget, figureTarget }),
  nobodyStarves,
  noSlowerThanJavaScript,
];

/**
 * @param {import('./results.mjs').Results} results
 * @returns {Outcome[]}
 */
export const evaluate = (results) => targets.map((target) => target(results));
