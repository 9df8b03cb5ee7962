import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
export const DRIVER_ADVICE = 'Run `node scripts/build-test-drivers.mjs`, which `npm test` does first.';
export const onNode20 = Number(process.versions.node.split('.')[0]) < 22;

function nodeSqlite() {
  /** @type {any} Not in the types of the oldest version of Node that stripelock runs on. */
  const sqlite = process.getBuiltinModule('node:sqlite');
  return sqlite
    ? [{ name: 'node:sqlite', open: (/** @type {string} */ file) => new sqlite.DatabaseSync(file) }]
    : [];
}

/** The main version of better-sqlite3 does not load on Node 20, which uses an older one. */
function betterSqlite() {
  try {
    const Database = require(onNode20 ? '../drivers/node20/node_modules/better-sqlite3' : 'better-sqlite3');
    new Database(':memory:').close();
    return [{ name: 'better-sqlite3', open: (/** @type {string} */ file) => new Database(file) }];
  } catch {
    return [];
  }
}

/**
 * All drivers that work on this Node. Commits do not wait for the disk: no test survives a loss of power, and a busy
 * disk may take longer than a lease of a test lasts.
 */
export const sqliteDrivers = [...nodeSqlite(), ...betterSqlite()].map(({ name, open }) => ({
  name,
  /**
   * @param {string} file
   * @returns {any} A database of any of the drivers.
   */
  open(file) {
    const database = open(file);
    database.exec('PRAGMA synchronous = OFF');
    return database;
  },
}));
