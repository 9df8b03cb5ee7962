// The package that is measured: this checkout's, or the one in the folder that a comparison of two builds names.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** The environment variable that names the folder. Threads inherit it. */
export const PACKAGE = 'STRIPELOCK_BENCH_PACKAGE';

/**
 * @param {string} entry As it is imported.
 * @returns {Promise<any>} What it exports; typed where it is assigned.
 */
function load(entry) {
  const folder = process.env[PACKAGE] ?? path.resolve(import.meta.dirname, '../..');
  return import(pathToFileURL(createRequire(path.join(folder, 'package.json')).resolve(entry)).href);
}

/** @type {Pick<typeof import('stripelock'), 'KeyedLock' | 'StripedLock' | 'LeaseManager' | 'MemoryLeaseStore'>} */
export const { KeyedLock, StripedLock, LeaseManager, MemoryLeaseStore } = await load('stripelock');

/** @returns {Promise<typeof import('stripelock/redis')>} */
export const loadRedisStore = () => load('stripelock/redis');

/** @returns {Promise<typeof import('stripelock/sqlite')>} */
export const loadSqliteStore = () => load('stripelock/sqlite');
