import type { FencingToken } from '../../lease/contract/lease-store.js';
import type { Item } from './client.js';

/*
 * The item of a key, as it is in the table:
 *
 *     { name: 'job:nightly', version: '6b2f…', token: 1767225600000000000, ends: 1767225661061, owner: 'host a',
 *       info: '', abandoned: false, removeAt: 1767312062 }
 *
 * The item is a lease while it has an `owner` and `ends` is later than the service's time. After that, the
 * item is kept because it contains the key's last token. `abandoned` is true if the previous holder left the
 * key without a release, else false. The attribute is removed when the current holder ends the lease. So if
 * an expired item has the attribute, the key was abandoned. While readers hold the key together, `owner` is the
 * name of their group, `info` is the group's state (see `group-text.ts`), and `abandoned` exists, and is true, only if
 * the key was abandoned when the group was formed. If readers are put off when the last one leaves, `info` is the time
 * until which the free key refuses readers. Every write sets a new `version`. A write is refused unless the item still
 * has the version that was read.
 */

/** Seconds (one day) for which a token is kept after its lease ended. */
const TOKEN_KEPT = 86_400;

/** The content of an item. */
export interface Entry {
  readonly token: FencingToken;
  /** The end of the lease, in milliseconds since 1970, by the service's clock. */
  readonly ends: number;
  /** Undefined if the key is free. */
  readonly owner: string | undefined;
  readonly info: string | undefined;
  readonly abandoned: boolean | undefined;
}

/** An entry that was read, with its version. */
export interface Read extends Entry {
  readonly version: string;
}

/** Parses an item. Throws an Error if this kind of store did not write the item. */
export function entryOf(item: Item): Read {
  const { version, token, ends, owner, info, abandoned } = item;
  if (version?.S !== undefined && token?.N !== undefined && ends?.N !== undefined) {
    return {
      version: version.S,
      token: BigInt(token.N),
      ends: Number(ends.N),
      owner: owner?.S,
      info: info?.S,
      abandoned: abandoned?.BOOL,
    };
  }
  throw new Error(`the item ${JSON.stringify(item['name']?.S)} of the table is not a lease`);
}

/**
 * Returns a write that is refused unless the item still has the version of `before`. If `before` is
 * undefined, the write is refused if an item exists.
 */
export function putting(
  table: string,
  name: string,
  before: Read | undefined,
  { token, ends, owner, info, abandoned }: Entry,
  version: string,
): object {
  const item: Item = {
    name: { S: name },
    version: { S: version },
    token: { N: String(token) },
    ends: { N: String(ends) },
    // A time in seconds. The service removes the item after this time if `removeAt` is the table's TTL
    // attribute.
    removeAt: { N: String(Math.ceil(ends / 1000) + TOKEN_KEPT) },
    ...(owner !== undefined && { owner: { S: owner } }),
    ...(info !== undefined && info !== '' && { info: { S: info } }),
    ...(abandoned !== undefined && { abandoned: { BOOL: abandoned } }),
  };
  const put = { TableName: table, Item: item, ExpressionAttributeNames: { '#version': 'version' } };
  if (before === undefined) return { ...put, ConditionExpression: 'attribute_not_exists(#version)' };
  return {
    ...put,
    ConditionExpression: '#version = :before',
    ExpressionAttributeValues: { ':before': { S: before.version } },
  };
}
