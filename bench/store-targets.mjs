// The targets of leases in stores outside the process.

import { ETCD3, ETCD_MANAGER, PUT_AND_DELETE } from './subjects/stores/etcd.mjs';
import {
  MARIADB_MANAGER,
  MARIADB_STATEMENTS,
  MYSQL2_MANAGER,
  MYSQL2_STATEMENTS,
} from './subjects/stores/mysql.mjs';
import { POSTGRES_MANAGER, STATEMENTS } from './subjects/stores/postgres.mjs';
import {
  REDIS_MANAGER,
  REDIS_PERMITS,
  REDLOCK,
  REDLOCK_SHORT,
  SEMAPHORE,
  SEMAPHORE_SHORT,
} from './subjects/stores/redis.mjs';

/**
 * @typedef {import('./targets.mjs').Target} Target
 * @typedef {Pick<import('./web-lock-targets.mjs').Kinds, 'ratioTarget' | 'figureTarget'>} Kinds
 */

/**
 * @param {Kinds} kinds
 * @returns {Target[]}
 */
export function storeTargets({ ratioTarget, figureTarget }) {
  /**
   * At least `limit` times as many leases a second as another.
   *
   * @param {string} manager
   */
  const atLeast =
    (manager) => (/** @type {number} */ limit, /** @type {string} */ workload, /** @type {string} */ other) =>
      ratioTarget(`${workload}: at least ${limit} × ${other}`, (ratio) => ratio >= limit, {
        metric: 'opsPerSecond',
        over: [workload, manager],
        under: [workload, other],
      });
  /**
   * To acquire and release takes at most `limit` times as long as another, in the median.
   *
   * @param {string} manager
   */
  const atMost =
    (manager) => (/** @type {number} */ limit, /** @type {string} */ workload, /** @type {string} */ other) =>
      ratioTarget(`${workload}: at most ${limit} × ${other}`, (ratio) => ratio <= limit, {
        metric: 'p50',
        over: [workload, manager],
        under: [workload, other],
      });
  const overRedis = atLeast(REDIS_MANAGER);
  const againAndAgain = 'Redis, 8 clients want a key again and again';
  return [
    overRedis(1, 'Redis, a hot key', REDLOCK),
    ...[REDLOCK, REDLOCK_SHORT].flatMap((other) => [
      overRedis(2, 'Redis, 2 clients want a key at once', other),
      overRedis(2, 'Redis, 8 clients want a key at once', other),
    ]),
    overRedis(1, againAndAgain, REDLOCK),
    figureTarget(
      `${againAndAgain}: least share at least 0.8 of the mean`,
      againAndAgain,
      'minShare',
      'share',
      (share) => share >= 0.8,
      REDIS_MANAGER,
    ),
    atLeast(REDIS_PERMITS)(0.34, 'Redis, 8 clients want 3 permits again and again', SEMAPHORE),
    atLeast(REDIS_PERMITS)(1, 'Redis, a free permit', SEMAPHORE),
    ...[SEMAPHORE, SEMAPHORE_SHORT].map((other) =>
      atLeast(REDIS_PERMITS)(3, 'Redis, 8 clients want 3 permits at once', other),
    ),
    atMost(POSTGRES_MANAGER)(1.2, 'PostgreSQL, a hot key', STATEMENTS),
    atMost(MYSQL2_MANAGER)(1.6, 'MySQL, a hot key', MYSQL2_STATEMENTS),
    atMost(MARIADB_MANAGER)(1.6, 'MySQL, a hot key', MARIADB_STATEMENTS),
    atMost(ETCD_MANAGER)(1.3, 'etcd, a hot key', PUT_AND_DELETE),
    atLeast(ETCD_MANAGER)(1.5, 'etcd, a hot key', ETCD3),
  ];
}
