// The package that is measured: this checkout's, or the one in the folder that a comparison of two builds names.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { PACKAGE_FOLDER } from './package-folder.mjs';

/**
 * @param {string} entry As it is imported.
 * @returns {Promise<any>} What it exports; typed where it is assigned.
 */
async function load(entry) {
  const { resolve } = createRequire(path.join(PACKAGE_FOLDER, 'package.json'));
  return import(pathToFileURL(resolve(entry)).href);
}

/** @type {Pick<typeof import('stripelock'), 'KeyedLock' | 'StripedLock' | 'LeaseManager' | 'MemoryLeaseStore'>} */
export const { KeyedLock, StripedLock, LeaseManager, MemoryLeaseStore } = await load('stripelock');

/** @type {(() => typeof import('stripelock/profile')) | undefined} Undefined in a package that is older than that. */
export const loadProfile = loaderOf('profile');
/** @type {(() => typeof import('stripelock/metrics')) | undefined} The same. */
export const loadMetrics = loaderOf('metrics');

/** @param {string} entry */
function loaderOf(entry) {
  const manifest = path.join(PACKAGE_FOLDER, 'package.json');
  const { exports } = JSON.parse(readFileSync(manifest, 'utf8'));
  return Object.hasOwn(exports, `./${entry}`)
    ? () => createRequire(manifest)(`stripelock/${entry}`)
    : undefined;
}

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
 * @property {typeof import('stripelock/etcd')} etcd
 * @property {typeof import('stripelock/mysql')} mysql
 * @property {typeof import('stripelock/postgres')} postgres
 * @property {typeof import('stripelock/mongodb')} mongodb
 * @property {typeof import('stripelock/redis')} redis
 * @property {typeof import('stripelock/sqlite')} sqlite
 */

/** @returns {Promise<typeof import('stripelock/web-locks')>} */
export const loadWebLocks = () => load('stripelock/web-locks');

/** @param {string} entry */
function hasEntry(entry) {
  const file = path.join(PACKAGE_FOLDER, 'package.json');
  return `./${entry}` in (JSON.parse(readFileSync(file, 'utf8')).exports ?? {});
}

/** Whether the package has locks between processes. */
export const hasProcessLock = () => hasEntry('process');

/** Whether the package has files that several programs change. */
export const hasLockedFile = () => hasEntry('file');

/** @returns {Promise<typeof import('stripelock/file')>} */
export const loadFile = () => load('stripelock/file');

/** @returns {Promise<typeof import('stripelock/process')>} */
export const loadProcess = () => load('stripelock/process');
