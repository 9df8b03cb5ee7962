import { LockError } from '../../common/errors.js';
import type { Value } from './connection.js';

/** A row as the client returned it. Its columns are unchecked, so read them with {@link textIn}. */
export type Row = Readonly<Record<string, unknown>>;

/**
 * The error for a result in an unexpected form. The store does not retry after this error, because the next
 * result would have the same form.
 */
function unreadable(what: string): LockError {
  return new LockError(
    'ERR_LEASE_CLIENT_RESULT',
    `the client of the PostgreSQL store returned ${what}. query(text, values) must resolve with the rows, or with an ` +
      'object that has them as rows. A row is an object with the columns of the statement, and their texts unchanged',
  );
}

/**
 * Returns the rows of a client's result, which is an array of rows or an object that contains such an array.
 */
export function rowsOf(result: unknown): readonly Row[] {
  const rows: unknown = Array.isArray(result)
    ? result
    : (result as { rows?: unknown } | null | undefined)?.rows;
  if (!Array.isArray(rows)) throw unreadable('no rows');
  for (const row of rows as unknown[]) {
    if (typeof row !== 'object' || row === null || Array.isArray(row))
      throw unreadable('a row that is no object');
  }
  return rows as Row[];
}

/** Returns the value of a column: a text or NULL. */
export function textIn(row: Row | undefined, column: string): Value {
  if (row === undefined) throw unreadable('too few rows');
  const value = row[column];
  if (typeof value === 'string' || value === null) return value;
  throw unreadable(`${value === undefined ? 'no' : `a ${typeof value} as`} column ${column}`);
}

/** Returns the value of a column that is never NULL. */
export function exactTextIn(row: Row | undefined, column: string): string {
  const value = textIn(row, column);
  if (value === null) throw unreadable(`NULL as column ${column}`);
  return value;
}
