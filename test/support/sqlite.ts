import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { SqliteDatabase } from 'stripelock/sqlite';
import { onNode20, sqliteDrivers as drivers } from './sqlite-drivers.mjs';

export { DRIVER_ADVICE } from './sqlite-drivers.mjs';

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

export const sqliteDrivers: readonly SqliteDriver[] = drivers;
export const missingDrivers: readonly string[] = [
  'better-sqlite3',
  ...(onNode20 ? [] : ['node:sqlite']),
].filter((name) => !sqliteDrivers.some((driver) => driver.name === name));

/** A file in a separate folder, which is removed with it. */
export function temporaryFile(): { file: string; remove: () => void } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-'));
  return {
    file: path.join(folder, 'leases.db'),
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }),
  };
}
