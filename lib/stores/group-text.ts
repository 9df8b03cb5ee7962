import type { FencingToken } from '../lease/contract/lease-store.js';
import { isGroupName } from '../lease/contract/shared.js';

/*
 * Stores over documents keep the state of a group in place of the lease's `info` text:
 *
 *     2026-01-01T00:00:00.000Z 0,reader1,reader2,
 *
 * New readers are put off until the time, in the server's clock. The digit is 1 if the reader that formed the group
 * found the key abandoned; the other readers get the same value. If the digit is 1, the field `abandoned` of the lease
 * is true; otherwise it is as after a release. So the end of a group does not change whether its key is abandoned.
 *
 * If readers are put off when the last reader leaves, the time stays in the released lease. Readers are refused until
 * that time, unless the key was granted to an owner since.
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

/** The form of a group's state. */
const TEXT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [01],[\w:,-]+,$/;

/**
 * Parses the state of the group that holds a lease. Undefined if the lease's owner is not a group, or passed such a
 * name to `tryAcquire` itself.
 */
export function groupIn({
  owner,
  token,
  info = '',
}: {
  owner: string;
  token: FencingToken;
  info: string | undefined;
}): Group | undefined {
  if (!isGroupName(owner, token) || !TEXT.test(info)) return undefined;
  return {
    putOffUntil: Date.parse(info.slice(0, TIME_LENGTH)),
    abandoned: info[HEAD_LENGTH - 1] === '1',
    readers: info.split(',').slice(1, -1),
  };
}

/** The text of a released lease that refuses readers until this time. */
export function putOffText(until: number): string {
  return new Date(until).toISOString();
}

/** The time until which a released lease with this text refuses readers. Undefined if it does not refuse them. */
export function putOffUntilIn(info: string | undefined): number | undefined {
  return info === undefined || info === '' ? undefined : Date.parse(info);
}

export function groupText({ putOffUntil, abandoned, readers }: Group): string {
  const head = `${putOffText(putOffUntil)} ${abandoned ? 1 : 0}`;
  return [head, ...readers, ''].join(',');
}
