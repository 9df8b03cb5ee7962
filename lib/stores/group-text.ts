import { READERS } from '../lease/contract/shared.js';

/*
 * Stores over documents keep the state of a group in place of the lease's `info` text:
 *
 *     2026-01-01T00:00:00.000Z 0,reader1,reader2,
 *
 * New readers are put off until the time, in the server's clock. The digit is 1 if the reader that formed the group
 * found the key abandoned; the other readers get the same value. Every other field of the lease is as after a
 * release, so the end of a group never leaves its key abandoned.
 */

/** The number of characters of the time, and of all text before the first comma. */
export const TIME_LENGTH = 24;
export const HEAD_LENGTH = TIME_LENGTH + 2;

/** The state of the group that holds a key. */
export interface Group {
  /** New readers are put off until this time, in milliseconds since 1970 by the server's clock. */
  readonly putOffUntil: number;
  readonly abandoned: boolean;
  readonly readers: readonly string[];
}

/**
 * Parses the state of the group that holds a lease. Undefined if the lease's owner is not a group, or passed such a
 * name to `tryAcquire` itself.
 */
export function groupIn({
  owner,
  info = '',
}: {
  owner: string;
  info: string | undefined;
}): Group | undefined {
  if (!owner.startsWith(READERS) || info === '') return undefined;
  return {
    putOffUntil: Date.parse(info.slice(0, TIME_LENGTH)),
    abandoned: info[HEAD_LENGTH - 1] === '1',
    readers: info.split(',').slice(1, -1),
  };
}

export function groupText({ putOffUntil, abandoned, readers }: Group): string {
  const head = `${new Date(putOffUntil).toISOString()} ${abandoned ? 1 : 0}`;
  return [head, ...readers, ''].join(',');
}
