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

/** @type {Pick<typeof import('stripelock'), 'StripedLock' | 'LeaseManager' | 'MemoryLeaseStore'>} */
export const { StripedLock, LeaseManager, MemoryLeaseStore } = await load('stripelock');

/**
 * The entry point of a store.
 *
 * @template {keyof Stores} S
 * @param {S} name
 * @returns {Promise<Stores[S]>}
 */
export const loadStore = (name) => load(`stripelock/${name}`);

/**
 * @typedef {object} Stores
 * @property {typeof import('stripelock/mongodb')} mongodb
 * @property {typeof import('stripelock/redis')} redis
 * @property {typeof import('stripelock/sqlite')} sqlite
 */
