import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import type { SqliteDatabase } from 'stripelock/sqlite';

const require = createRequire(import.meta.url);

export interface TestDatabase extends SqliteDatabase {
  prepare(sql: string): {
    get(...parameters: unknown[]): Record<string, unknown> | undefined;
    all(...parameters: unknown[]): Record<string, unknown>[];
    run(...parameters: unknown[]): unknown;
  };
  close(): unknown;
}

export interface SqliteDriver {
  readonly name: string;
  readonly open: (file: string) => TestDatabase;
}

type Constructor = new (file: string) => TestDatabase;

const onNode20 = Number(process.versions.node.split('.')[0]) < 22;

function nodeSqlite(): SqliteDriver[] {
  const sqlite = process.getBuiltinModule('node:sqlite') as { DatabaseSync: Constructor } | undefined;
  return sqlite ? [{ name: 'node:sqlite', open: (file) => new sqlite.DatabaseSync(file) }] : [];
}

/** The version that is installed for all does not even load on Node 20, which has one of its own. */
function betterSqlite(): SqliteDriver[] {
  try {
    const Database = require(
      onNode20 ? '../drivers/node20/node_modules/better-sqlite3' : 'better-sqlite3',
    ) as Constructor;
    new Database(':memory:').close();
    return [{ name: 'better-sqlite3', open: (file) => new Database(file) }];
  } catch {
    return [];
  }
}

/** All that work on this Node. */
export const sqliteDrivers: readonly SqliteDriver[] = [...nodeSqlite(), ...betterSqlite()];
export const missingDrivers: readonly string[] = [
  'better-sqlite3',
  ...(onNode20 ? [] : ['node:sqlite']),
].filter((name) => !sqliteDrivers.some((driver) => driver.name === name));
export const DRIVER_ADVICE = 'Run `node scripts/build-test-drivers.mjs`, which `npm test` does first.';

/** A file in a folder of its own, to be removed with it. */
export function temporaryFile(): { file: string; remove: () => void } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-'));
  return {
    file: path.join(folder, 'leases.db'),
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }),
  };
}
