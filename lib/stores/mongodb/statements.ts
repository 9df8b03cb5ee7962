import { createHash } from 'node:crypto';
import { LeaseStoreError } from '../../lease/contract/errors.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import { encodeText, MARK } from '../exact-text.js';
import type { Kept } from '../server-store.js';

/*
 * The document of a key, as it is in the collection:
 *
 *     { _id: 'job:nightly', owner: 'host a', leaseEnds: Date, token: Long, info: '' }
 *
 * It is a lease while `owner` is not empty and `leaseEnds` is later than the primary's clock. After that it remains for
 * its token, until the TTL index removes it. Only a text that a caller chooses can look like an operator, and each of
 * those in a pipeline is a `$literal`; those in a filter are compared as they are.
 */

/** The owner of a key that is free. No lease has it. */
export const NOBODY = '';
/** Seconds for which a token is kept after its lease: a day, more than clocks of a replica set differ by. */
const TOKEN_KEPT = 86_400;
/** Bytes. Engines on top of others cannot index keys of a few kilobytes. */
const LONGEST_ID = 512;
const NANOSECONDS = 1_000_000n;
/** A name that no document has. It exists between two stages of an update only. */
const FREE = 'stripelockFree';

const literal = (value: string): object => ({ $literal: value });
const inTime = (milliseconds: number): object => ({ $add: ['$$NOW', BigInt(milliseconds)] });
const isFree = (then: unknown, otherwise: string): object => ({ $cond: [`$${FREE}`, then, otherwise] });

/** What an upsert inserts is made from the filter, so it has an `_id` and nothing else. */
const IS_NEW = { $eq: ['$$ROOT', { _id: '$_id' }] };
const IS_LEASE = {
  $and: [
    { $eq: [{ $type: '$owner' }, 'string'] },
    { $eq: [{ $type: '$leaseEnds' }, 'date'] },
    { $eq: [{ $type: '$token' }, 'long'] },
  ],
};

/** The `_id` of a key: the key itself, or a hash of a long one. */
export function idOf(key: string): string {
  const text = encodeText(key);
  if (Buffer.byteLength(text) <= LONGEST_ID) return text;
  return `${MARK}#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}

/**
 * Takes the key if it is free, in one step for all cases. The filter is the `_id` alone: with more, a refusal would look for
 * a document that is not there, insert it, and fail with a duplicate key. What is not free stays as it is, so that a refusal
 * writes nothing. That includes a document that is not a lease.
 *
 * `above`: the token must be greater. It also is at least the primary's clock, in nanoseconds.
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

/** Matches a lease of that owner that has not ended; `token`: of the grant that it must be. */
export function heldBy(_id: string, owner: string, token?: FencingToken): object {
  const lease = token === undefined ? { _id, owner } : { _id, owner, token };
  return { ...lease, $expr: { $gt: ['$leaseEnds', '$$NOW'] } };
}

/** A lease that ends later keeps its time. `info`: undefined to leave it as it is. */
export function renewing(milliseconds: number, info: string | undefined): object[] {
  const replaced = info === undefined ? {} : { info: literal(info) };
  return [{ $set: { leaseEnds: { $max: ['$leaseEnds', inTime(milliseconds)] }, ...replaced } }];
}

/** For the end of a lease, which may come sooner. */
export function keeping(milliseconds: number): object[] {
  return [{ $set: { leaseEnds: inTime(milliseconds) } }];
}

/** The document remains for its token. */
export const FREEING: readonly object[] = [{ $set: { owner: NOBODY, leaseEnds: '$$NOW', info: '' } }];

/** What the caller wants to know of a document. */
export const FIELDS = {
  _id: 0,
  owner: 1,
  token: 1,
  info: 1,
  remaining: { $subtract: ['$leaseEnds', '$$NOW'] },
} as const;

/** Tokens of a day ago matter to nobody whose clock is right, so documents go then. */
export const TTL_INDEX = [{ leaseEnds: 1 }, { expireAfterSeconds: TOKEN_KEPT }] as const;

/** Releases, whether the server reports what has changed or, where that is longer, the whole document. */
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

/** Also of a lease that has ended; then 0 milliseconds or less remain. Undefined for no document. Throws a LeaseStoreError for one that no store of this kind has written. */
export function foundIn(document: unknown, _id: string): Kept | undefined {
  if (document === null || document === undefined) return undefined;
  const { owner, token, leaseEnds, info, ...rest } = document as { readonly [field: string]: unknown };
  // What a server remembers of an update that the driver sends again is the whole document, without what was asked for. How
  // long the lease lasts is not known then; for a refusal 0 lets the waiter ask again at once.
  const remaining = leaseEnds instanceof Date ? 0 : rest['remaining'];
  const complete =
    typeof owner === 'string' &&
    typeof token === 'bigint' &&
    typeof info === 'string' &&
    (typeof remaining === 'bigint' || typeof remaining === 'number');
  if (complete) return { owner, token, remaining: Number(remaining), info };
  throw new LeaseStoreError(`the document ${JSON.stringify(_id)} of the collection is not a lease`);
}
