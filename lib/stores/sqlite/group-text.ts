import { isGroupName } from '../../lease/contract/shared.js';
import type { SqliteRow } from './database.js';

/** See {@link textOf}. */
const TEXT = /^(\d+) ([01]) ([\w:,-]+)$/;

/** The readers that hold a key together, as a row keeps them in its column `info`. */
export interface Group {
  /** The row's owner. */
  readonly name: string;
  /** New readers are refused until this time, on the store's clock. */
  readonly putOffUntil: bigint;
  /** Whether the key was abandoned when the group was formed. The row's column `abandoned` is then 1. */
  readonly abandoned: boolean;
  readonly readers: ReadonlySet<string>;
}

/** The group that holds the row's key. Undefined if the key is free, reserved, or held by another owner. */
export function groupOf(row: SqliteRow | undefined, now: bigint): Group | undefined {
  if (row === undefined || (row['expires'] as bigint) <= now) return undefined;
  const name = row['owner'] as string;
  if (!isGroupName(name, row['token'] as bigint)) return undefined;
  const [, time, abandoned, readers] = TEXT.exec(String(row['info'])) ?? [];
  if (readers === undefined) return undefined;
  return {
    name,
    putOffUntil: BigInt(time!),
    abandoned: abandoned === '1',
    readers: new Set(readers.split(',')),
  };
}

/**
 * The text for the column `info`: the time until which readers are put off, 1 if the key was abandoned or else 0,
 * and the readers.
 */
export function textOf({ putOffUntil, abandoned, readers }: Omit<Group, 'name'>): string {
  return `${putOffUntil} ${abandoned ? 1 : 0} ${[...readers].join(',')}`;
}
