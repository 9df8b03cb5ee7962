import { createHash } from 'node:crypto';
import { LeaseStoreError } from '../../lease/contract/errors.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import { groupName, READERS } from '../../lease/contract/shared.js';
import { encodeText, MARK } from '../exact-text.js';
import { HEAD_LENGTH, TIME_LENGTH } from '../group-text.js';
import type { PageRange } from '../listing.js';
import type { StoredLease } from '../server-store.js';

/*
 * The document of a key, as it is in the collection:
 *
 *     { _id: 'job:nightly', owner: 'host a', leaseEnds: Date, token: Long, info: '', abandoned: false }
 *
 * The document is a lease while `owner` is not empty and `leaseEnds` is later than the primary's clock. After
 * that, the document is kept because it contains the key's last token, until the TTL index removes the
 * document. `abandoned` is true if the previous holder left the key without a release, else false. When the
 * current holder ends the lease, `abandoned` becomes null. So if the key is free and `abandoned` is not null,
 * the key was abandoned.
 *
 * While readers hold the key together, `owner` is the name of their group, `info` is the group's state (see
 * `group-text.ts`), and `abandoned` is true if the key was abandoned when the group was formed, else null. If readers
 * are put off when the last one leaves, `info` is the time until which the free key refuses readers.
 *
 * A caller's text may look like an operator, so a pipeline contains each caller's text as a `$literal`. A
 * filter does not need this, because it compares texts unchanged.
 */

/** The owner of a free key. No lease has this owner. */
export const NO_OWNER = '';
/**
 * Seconds (one day) for which a token is kept after its lease ended. The clocks of a replica set differ by
 * less than that.
 */
const TOKEN_KEPT = 86_400;
/**
 * The maximum length of an `_id`, in bytes. Longer keys are hashed, because MongoDB-compatible engines cannot
 * index keys of a few kilobytes.
 */
const LONGEST_ID = 512;
/**
 * Matches the `_id` of a hashed key. A list of leases contains this `_id` instead of the key, because the key
 * itself is not stored.
 */
const HASH_NAME = new RegExp(`^${MARK}#[\\w-]{43}$`, 'u');
const NANOSECONDS = 1_000_000n;
/** The least text that is greater than the names of all groups. */
const READERS_END = READERS.replace(/:$/, ';');
/** A temporary field that exists only between two stages of an update. */
const FREE = 'stripelockFree';

const literal = (value: string): object => ({ $literal: value });
const inTime = (milliseconds: number): object => ({ $add: ['$$NOW', BigInt(milliseconds)] });
const isFree = (then: unknown, otherwise: string): object => ({ $cond: [`$${FREE}`, then, otherwise] });

/**
 * An expression that is true if the upsert has just inserted the document. In that case, the document has no
 * field except the `_id` of the filter.
 */
const IS_NEW = { $eq: ['$$ROOT', { _id: '$_id' }] };
const IS_LEASE = {
  $and: [
    { $eq: [{ $type: '$owner' }, 'string'] },
    { $eq: [{ $type: '$leaseEnds' }, 'date'] },
    { $eq: [{ $type: '$token' }, 'long'] },
  ],
};

/** An expression that is true if the last holder did not end its lease. That lease may have expired. */
const NOT_ENDED = { $gt: ['$abandoned', null] };

/**
 * Expressions that are true if the owner is a group. Another owner may pass such a name to `tryAcquire` itself, but
 * does not know its token before the grant.
 */
const TOKEN_SUFFIX = { $concat: [':', { $toString: '$token' }] };
const IS_GROUP = [
  IS_LEASE,
  { $gte: ['$owner', READERS] },
  { $lt: ['$owner', READERS_END] },
  { $ne: ['$owner', { $replaceOne: { input: '$owner', find: TOKEN_SUFFIX, replacement: '' } }] },
];
/** An expression for the time until which new readers are put off. Times as texts are ordered like times. */
const PUT_OFF_UNTIL = { $substrCP: ['$info', 0, TIME_LENGTH] };
const IS_OPEN = { $lte: [PUT_OFF_UNTIL, { $toString: '$$NOW' }] };

/**
 * The `_id` of a key: the encoded key, or its hash if the key is long. A list of leases contains the hash
 * instead of the key, so callers may also pass the hash as the key.
 */
export function idOf(key: string): string {
  const text = encodeText(key);
  if (text !== key && HASH_NAME.test(key)) return key;
  if (Buffer.byteLength(text) <= LONGEST_ID) return text;
  return `${MARK}#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}

/**
 * A pipeline that acquires the key if it is free. A single update covers all cases. The update's filter
 * contains only the `_id`. With more conditions, the filter would not match a held key; the update would then
 * try to insert a document, and fail with a duplicate key. The pipeline leaves a document unchanged if its
 * key is held, or if the document is not a lease. So a refusal writes nothing.
 *
 * The new token is higher than `above`, and at least the primary's clock in nanoseconds.
 */
export function acquiring(owner: string, milliseconds: number, info: string, above: FencingToken): object[] {
  const token = tokenAbove(above);
  const available = {
    $or: [{ $in: ['$owner', [literal(owner), NO_OWNER]] }, { $lte: ['$leaseEnds', '$$NOW'] }],
  };
  const ends = inTime(milliseconds);
  const isOwn = { $and: [{ $eq: ['$owner', literal(owner)] }, { $gt: ['$leaseEnds', '$$NOW'] }] };
  const abandoned = { $cond: [isOwn, { $ifNull: ['$abandoned', false] }, NOT_ENDED] };
  return [
    { $set: { [FREE]: { $or: [IS_NEW, { $and: [IS_LEASE, available] }] } } },
    {
      $set: {
        owner: isFree(literal(owner), '$owner'),
        leaseEnds: isFree({ $cond: [isOwn, { $max: ['$leaseEnds', ends] }, ends] }, '$leaseEnds'),
        token: isFree(token, '$token'),
        info: isFree(literal(info), '$info'),
        abandoned: isFree(abandoned, '$abandoned'),
      },
    },
    { $unset: FREE },
  ];
}

function tokenAbove(above: FencingToken): object {
  return {
    $max: [
      { $add: [{ $ifNull: ['$token', 0n] }, 1n] },
      { $multiply: [{ $toLong: '$$NOW' }, NANOSECONDS] },
      above + 1n,
    ],
  };
}

/**
 * A pipeline that grants the key in shared mode. The reader forms a group if the key is free, and joins the group
 * that holds the key unless readers are put off. Otherwise, the pipeline leaves the document unchanged.
 *
 * The id of a reader needs no `$literal`, because it contains no `$`.
 */
export function acquiringShared(reader: string, milliseconds: number, above: FencingToken): object[] {
  const isFree = { $cond: [{ $eq: ['$owner', NO_OWNER] }, IS_OPEN, { $lte: ['$leaseEnds', '$$NOW'] }] };
  const forms = { $or: [IS_NEW, { $and: [IS_LEASE, isFree] }] };
  const joins = { $and: [...IS_GROUP, { $or: [isReader(reader), IS_OPEN] }] };
  const token = tokenAbove(above);
  const formed = {
    owner: { $concat: [groupName(reader, ''), { $toString: token }] },
    leaseEnds: inTime(milliseconds),
    token,
    info: { $concat: [{ $toString: '$$NOW' }, { $cond: [NOT_ENDED, ' 1', ' 0'] }, `,${reader},`] },
    abandoned: { $cond: [NOT_ENDED, true, null] },
  };
  const joined = {
    leaseEnds: { $max: ['$leaseEnds', inTime(milliseconds)] },
    info: { $cond: [isReader(reader), '$info', { $concat: ['$info', `${reader},`] }] },
  };
  return changing({ $cond: [forms, formed, { $cond: [joins, joined, {}] }] });
}

/** A filter that matches the key's unexpired lease if it belongs to a group, and to a group with this reader. */
export function heldByGroup(_id: string, reader?: string): object {
  const isHeld = [{ $gt: ['$leaseEnds', '$$NOW'] }, ...IS_GROUP];
  return { _id, $expr: { $and: reader === undefined ? isHeld : [...isHeld, isReader(reader)] } };
}

/** A pipeline that removes a reader from its group. If no other reader is left, the lease is released. */
export function leaving(reader: string): object[] {
  const isAlone = { $eq: ['$info', { $concat: [{ $substrCP: ['$info', 0, HEAD_LENGTH] }, `,${reader},`] }] };
  const freed = { owner: NO_OWNER, leaseEnds: '$$NOW', info: { $cond: [IS_OPEN, '', PUT_OFF_UNTIL] } };
  return changing({ $cond: [isAlone, freed, { info: without(reader) }] });
}

/** A pipeline that puts off new readers, and never shortens the time. */
export function puttingOff(milliseconds: number): object[] {
  const until = { $max: [PUT_OFF_UNTIL, { $toString: inTime(milliseconds) }] };
  return [{ $set: { info: { $replaceOne: { input: '$info', find: PUT_OFF_UNTIL, replacement: until } } } }];
}

/** An expression for the group's text without a reader. The commas prevent a match within another id. */
function without(reader: string): object {
  return { $replaceOne: { input: '$info', find: `,${reader},`, replacement: ',' } };
}

function isReader(reader: string): object {
  return { $ne: ['$info', without(reader)] };
}

/** A pipeline that sets the fields of the object to which the expression evaluates. */
function changing(fields: object): object[] {
  return [{ $replaceWith: { $mergeObjects: ['$$ROOT', fields] } }];
}

/**
 * A filter that matches the key's unexpired lease if it belongs to this owner. `token`: the required grant's
 * token. If undefined, any grant of the owner matches.
 */
export function heldBy(_id: string, owner: string, token?: FencingToken): object {
  const lease = token === undefined ? { _id, owner } : { _id, owner, token };
  return { ...lease, $expr: { $gt: ['$leaseEnds', '$$NOW'] } };
}

/** A filter that matches the key's unexpired lease if it has this token and belongs to one of these owners. */
export function heldByEither(_id: string, owners: readonly string[], token: FencingToken): object {
  const isOwned = { $in: ['$owner', owners.map(literal)] };
  return { _id, token, $expr: { $and: [isOwned, { $gt: ['$leaseEnds', '$$NOW'] }] } };
}

/**
 * A filter that matches the unexpired leases of a page. It does not match documents that this kind of store
 * did not write.
 */
export function heldIn({ from, after, to }: PageRange): object {
  const isHeld = [IS_LEASE, { $gt: ['$owner', NO_OWNER] }, { $gt: ['$leaseEnds', '$$NOW'] }];
  return { _id: { $gte: from, $gt: after, $lt: to }, $expr: { $and: isHeld } };
}

/**
 * A pipeline that extends a lease, and never shortens it. If `info` is undefined, the stored `info` text
 * stays unchanged.
 */
export function renewing(milliseconds: number, info: string | undefined): object[] {
  const replaced = info === undefined ? {} : { info: literal(info) };
  return [{ $set: { leaseEnds: { $max: ['$leaseEnds', inTime(milliseconds)] }, ...replaced } }];
}

/**
 * A pipeline that sets the owner and the remaining time of a lease, possibly to a shorter time. A repetition changes
 * nothing.
 */
export function keeping(milliseconds: number, keptOwner: string): object[] {
  const isKept = { $eq: ['$owner', literal(keptOwner)] };
  const leaseEnds = { $cond: [isKept, '$leaseEnds', inTime(milliseconds)] };
  return [{ $set: { owner: literal(keptOwner), leaseEnds, abandoned: null } }];
}

/** A pipeline that releases a lease. The document is not deleted, because it holds the token. */
export const FREEING = freeing(null);
/** A pipeline that takes back a grant that its holder used but did not release. */
export const TAKING_USED = freeing({ $cond: [NOT_ENDED, true, null] });
/** A pipeline that takes back a grant that its holder did not use. */
export const TAKING_UNUSED = freeing({ $cond: [{ $eq: ['$abandoned', true] }, true, null] });

function freeing(abandoned: object | null): readonly object[] {
  return [{ $set: { owner: NO_OWNER, leaseEnds: '$$NOW', info: '', abandoned } }];
}

/** The fields that queries return. */
export const FIELDS = {
  _id: 0,
  owner: 1,
  token: 1,
  info: 1,
  abandoned: 1,
  remaining: { $subtract: ['$leaseEnds', '$$NOW'] },
} as const;

/** The fields that the answer to a reader needs. `now` is the server's clock. */
export const GROUP_FIELDS = { ...FIELDS, now: '$$NOW' } as const;

/**
 * The fields and options of the TTL index, which removes each document a day after its lease ended. A token
 * that old matters only if a clock is wrong by a day.
 */
export const TTL_INDEX = [{ leaseEnds: 1 }, { expireAfterSeconds: TOKEN_KEPT }] as const;

/**
 * A pipeline for a change stream that selects releases. The server reports the changed fields, or the whole
 * document if that is shorter.
 */
export const RELEASES: readonly object[] = [
  {
    $match: {
      $or: [
        { 'updateDescription.updatedFields.owner': NO_OWNER },
        { operationType: 'replace', 'fullDocument.owner': NO_OWNER },
      ],
    },
  },
  { $project: { documentKey: 1 } },
];

/**
 * Parses a document. If its lease has expired, `remaining` is 0 or negative. Returns undefined if there is no
 * document. Throws a LeaseStoreError if this kind of store did not write the document.
 */
export function foundIn(document: unknown, _id: string): StoredLease | undefined {
  if (document === null || document === undefined) return undefined;
  const { owner, token, leaseEnds, info, ...rest } = document as { readonly [field: string]: unknown };
  // If the driver repeats an update, the server answers with the whole document, without the computed fields.
  // The remaining time is then unknown. It is set to 0, so that a refused waiter retries at once.
  const remaining = leaseEnds instanceof Date ? 0 : rest['remaining'];
  const complete =
    typeof owner === 'string' &&
    typeof token === 'bigint' &&
    typeof info === 'string' &&
    (typeof remaining === 'bigint' || typeof remaining === 'number');
  if (complete) return { owner, token, remaining: Number(remaining), info };
  throw new LeaseStoreError(`the document ${JSON.stringify(_id)} of the collection is not a lease`);
}
