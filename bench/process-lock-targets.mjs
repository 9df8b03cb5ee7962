// The targets of locks between processes.

import { bareFcntl, processLock, properLockfile, spreadProcessLock } from './subjects/process-locks.mjs';

const OURS = processLock.name;
const SPREAD = spreadProcessLock.name;
const PROPER = properLockfile.name;
const BARE = bareFcntl.name;

/** Milliseconds from a release, and from SIGKILL of the holder, to the next. */
const RELEASED = 0.5;
const KILLED = 30;

const COMMAND = 'the command `stripelock run -- true`, against `node -e 0`';

/**
 * @typedef {import('./targets.mjs').Target} Target
 * @typedef {import('./web-lock-targets.mjs').Kinds} Kinds
 */

/**
 * @param {Kinds} kinds
 * @returns {Target[]}
 */
export function processLockTargets({ ratioTarget, figureTarget }) {
  const atMostBare = (/** @type {number} */ limit, /** @type {string} */ workload) =>
    ratioTarget(`${workload}: at most ${limit} × ${BARE}`, (ratio) => ratio <= limit, {
      metric: 'nsPerOp',
      over: [workload, OURS],
      under: [workload, BARE],
    });
  const fasterThanProper = (/** @type {number} */ limit, /** @type {string} */ workload) =>
    ratioTarget(`${workload}: at least ${limit} × ${PROPER}`, (ratio) => ratio >= limit, {
      metric: 'nsPerOp',
      over: [workload, PROPER],
      under: [workload, OURS],
    });
  const figure = (
    /** @type {string} */ workload,
    /** @type {string} */ what,
    /** @type {string} */ metric,
    /** @type {import('./metrics.mjs').Metric['unit']} */ unit,
    /** @type {(value: number) => boolean} */ holds,
  ) => figureTarget(`${workload}: ${what}`, workload, metric, unit, holds, OURS);
  const both = (/** @type {string} */ name) => [`processes, ${name}, sync`, `processes, ${name}, async`];
  const [blocking, byTry, awaited] = ['blocking', 'by try', 'awaited'].map(
    (how) => `processes, a free key, ${how}`,
  );
  const beside = `${blocking}, beside 1,000 held`;
  const crowds = both('8 at one key');
  const pairs = both('4 with 2 threads each at one key');
  const alone = 'processes, 1 with 4 threads at one key, async';
  // Threads of one process hand a key on without another process. Before they shared one queue, pairs got 0.45 (sync) and 0.35
  // (async) of the grants of as many processes, and the threads of one process 0.53.
  const besideCrowd = (
    /** @type {number} */ limit,
    /** @type {string} */ workload,
    /** @type {string} */ crowd,
  ) =>
    ratioTarget(`${workload}: at least ${limit} × the grants of "${crowd}"`, (ratio) => ratio >= limit, {
      metric: 'opsPerSecond',
      over: [workload, OURS],
      under: [crowd, OURS],
    });
  return [
    ...[blocking, byTry, awaited].map((workload) => atMostBare(2.5, workload)),
    ...[blocking, awaited].map((workload) => fasterThanProper(100, workload)),
    ratioTarget(`${beside}: ${SPREAD} at most 2 × ${OURS} where none are held`, (ratio) => ratio <= 2, {
      metric: 'nsPerOp',
      over: [beside, SPREAD],
      under: [blocking, OURS],
    }),
    ...crowds.flatMap((workload) => [
      // It cannot wait by blocking.
      ratioTarget(`${workload}: at least 100 × ${PROPER}`, (ratio) => ratio >= 100, {
        metric: 'opsPerSecond',
        over: [workload, OURS],
        under: [crowds[1], PROPER],
      }),
      figure(workload, 'least share at least 0.8 of the mean', 'minShare', 'share', (share) => share >= 0.8),
      figure(workload, 'most at most 1.25 of the mean', 'maxShare', 'share', (share) => share <= 1.25),
    ]),
    ...pairs.map((workload, i) => besideCrowd(0.8, workload, crowds[i] ?? '')),
    besideCrowd(1.5, alone, crowds[1] ?? ''),
    ...both('from a release to the next holder').map((workload) =>
      figure(
        workload,
        `at most ${RELEASED} ms in the median`,
        'handOver50',
        'ns',
        (time) => time <= RELEASED * 1e6,
      ),
    ),
    ...both('from SIGKILL of a holder to the next').map((workload) =>
      figure(
        workload,
        `at most ${KILLED} ms in the median`,
        'deadHolder50',
        'ns',
        (time) => time <= KILLED * 1e6,
      ),
    ),
    ...both('100 that wait').map((workload) =>
      figure(workload, 'at most a tenth of a processor', 'processorShare', 'share', (share) => share <= 0.1),
    ),
    figure(COMMAND, 'at most twice as long', 'overBare', 'times', (ratio) => ratio <= 2),
  ];
}
