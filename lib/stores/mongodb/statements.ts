import { createHash } from 'node:crypto';
import { LeaseStoreError } from '../../lease/contract/errors.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import { encodeText, MARK } from '../exact-text.js';
import type { StoredLease } from '../server-store.js';

/*
 * The document of a key, as it is in the collection:
 *
 *     { _id: 'job:nightly', owner: 'host a', leaseEnds: Date, token: Long, info: '' }
 *
 * It is a lease while `owner` is not empty and `leaseEnds` is later than the primary's clock. After that it remains for
 * its token, until the TTL index removes it. Only a text that a caller chooses can look like an operator, and each of
 * those in a pipeline is a `$literal`; those in a filter are compared as they are.
 */

/** The owner of a free key. No lease has this owner. */
export const NOBODY = '';
/**
 * Seconds (one day) for which a token is kept after its lease ended: longer than the clocks of a replica set differ.
 */
const TOKEN_KEPT = 86_400;
/** Bytes. MongoDB-compatible engines cannot index keys of a few kilobytes. */
const LONGEST_ID = 512;
const NANOSECONDS = 1_000_000n;
/** A temporary field that exists only between two stages of an update. */
const FREE = 'stripelockFree';

const literal = (value: string): object => ({ $literal: value });
const inTime = (milliseconds: number): object => ({ $add: ['$$NOW', BigInt(milliseconds)] });
const isFree = (then: unknown, otherwise: string): object => ({ $cond: [`$${FREE}`, then, otherwise] });

/** Whether the upsert just inserted the document. It is made from the filter, so it consists of its `_id`. */
const IS_NEW = { $eq: ['$$ROOT', { _id: '$_id' }] };
const IS_LEASE = {
  $and: [
    { $eq: [{ $type: '$owner' }, 'string'] },
    { $eq: [{ $type: '$leaseEnds' }, 'date'] },
    { $eq: [{ $type: '$token' }, 'long'] },
  ],
};

/** The `_id` of a key: the key itself, or its hash if it is long. */
export function idOf(key: string): string {
  const text = encodeText(key);
  if (Buffer.byteLength(text) <= LONGEST_ID) return text;
  return `${MARK}#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}

/**
 * Acquires the key if it is free, in one update for all cases. The filter is only the `_id`. With more conditions, a
 * refusal would find no document, try to insert one, and fail with a duplicate key. A document that is not free, or is
 * not a lease, stays unchanged, so a refusal writes nothing.
 *
 * The new token exceeds `above` and is at least the primary's clock in nanoseconds.
 */
export function acquiring(owner: string, milliseconds: number, info: string, above: FencingToken): object[] {
  const token = {
    $max: [
      { $add: [{ $ifNull: ['$token', 0n] }, 1n] },
      { $multiply: [{ $toLong: '$$NOW' }, NANOSECONDS] },
      above + 1n,
    ],
  };
  const available = {
    $or: [{ $in: ['$owner', [literal(owner), NOBODY]] }, { $lte: ['$leaseEnds', '$$NOW'] }],
  };
  return [
    { $set: { [FREE]: { $or: [IS_NEW, { $and: [IS_LEASE, available] }] } } },
    {
      $set: {
        owner: isFree(literal(owner), '$owner'),
        leaseEnds: isFree(inTime(milliseconds), '$leaseEnds'),
        token: isFree(token, '$token'),
        info: isFree(literal(info), '$info'),
      },
    },
    { $unset: FREE },
  ];
}

/** Matches an unexpired lease of that owner. `token` is the required grant; undefined accepts any. */
export function heldBy(_id: string, owner: string, token?: FencingToken): object {
  const lease = token === undefined ? { _id, owner } : { _id, owner, token };
  return { ...lease, $expr: { $gt: ['$leaseEnds', '$$NOW'] } };
}

/** Never shortens a lease. An undefined `info` leaves the info unchanged. */
export function renewing(milliseconds: number, info: string | undefined): object[] {
  const replaced = info === undefined ? {} : { info: literal(info) };
  return [{ $set: { leaseEnds: { $max: ['$leaseEnds', inTime(milliseconds)] }, ...replaced } }];
}

/** Sets the remaining time of a lease, possibly to a shorter one. */
export function keeping(milliseconds: number): object[] {
  return [{ $set: { leaseEnds: inTime(milliseconds) } }];
}

/** Releases a lease. The document stays, because it holds the token. */
export const FREEING: readonly object[] = [{ $set: { owner: NOBODY, leaseEnds: '$$NOW', info: '' } }];

/** The fields to return. */
export const FIELDS = {
  _id: 0,
  owner: 1,
  token: 1,
  info: 1,
  remaining: { $subtract: ['$leaseEnds', '$$NOW'] },
} as const;

/** Removes documents a day after their lease ended. Older tokens matter only to a client whose clock is wrong. */
export const TTL_INDEX = [{ leaseEnds: 1 }, { expireAfterSeconds: TOKEN_KEPT }] as const;

/** Matches releases, whether the server reports the changed fields or the whole document, if that is shorter. */
export const RELEASES: readonly object[] = [
  {
    $match: {
      $or: [
        { 'updateDescription.updatedFields.owner': NOBODY },
        { operationType: 'replace', 'fullDocument.owner': NOBODY },
      ],
    },
  },
  { $project: { documentKey: 1 } },
];

/**
 * Parses a document, even of an expired lease; `remaining` is then 0 or negative. Returns undefined for no document.
 * Throws a LeaseStoreError for a document that this kind of store did not write.
 */
export function foundIn(document: unknown, _id: string): StoredLease | undefined {
  if (document === null || document === undefined) return undefined;
  const { owner, token, leaseEnds, info, ...rest } = document as { readonly [field: string]: unknown };
  // For a retried update, the server answers with the whole remembered document, without the computed fields. The
  // remaining time is then unknown. 0 makes a refused waiter retry at once.
  const remaining = leaseEnds instanceof Date ? 0 : rest['remaining'];
  const complete =
    typeof owner === 'string' &&
    typeof token === 'bigint' &&
    typeof info === 'string' &&
    (typeof remaining === 'bigint' || typeof remaining === 'number');
  if (complete) return { owner, token, remaining: Number(remaining), info };
  throw new LeaseStoreError(`the document ${JSON.stringify(_id)} of the collection is not a lease`);
}
