import { groupName, READERS } from '../../lease/contract/shared.js';
import { encodeText } from '../exact-text.js';
import type { PageRange } from '../listing.js';
import type { Operation } from '../requests.js';
import type { Cluster } from './cluster.js';
import type { EtcdLease, EtcdLeases } from './etcd-leases.js';
import {
  base64,
  fromBase64,
  isAbsent,
  kvOf,
  put,
  range,
  termOf,
  type KeyValue,
  type Message,
  type Txn,
} from './gateway.js';

/** The parsed value of a held key. */
export interface Grant {
  /** The token base. The grant's token is the sum of this base and the revision. */
  readonly base: string;
  readonly owner: string;
  /**
   * The revision at which the key was granted. A later write of the key changes the key's revision, but not
   * this field.
   */
  readonly revision: string;
  /** Empty for a lease without info. */
  readonly info: string;
  /**
   * Whether the last write prepared the replacement of this grant by another grant to the same owner. No client caches
   * such a write. So a renewal succeeds only after it has rewritten the key.
   */
  readonly isClaimed?: boolean | undefined;
  /** If readers hold the key: `reader1,reader2,`. The owner is then the name of their group. */
  readonly readers?: string | undefined;
  /** The id of the etcd lease that the key is bound to. */
  readonly lease: string;
  /** The key as the server stores it. */
  readonly kv: KeyValue;
}

/**
 * The value to write for a key that readers hold, in base64. `revision` as for {@link valueOf}. The value contains
 * the id of the reader that formed the group, because the token in the group's name depends on the revision.
 */
export function groupValueOf(base: string, first: string, readers: string, revision?: string): string {
  return base64(JSON.stringify({ base, owner: READERS + first, revision, readers }));
}

/** The id of the reader that formed the group. */
export const firstReaderOf = (group: string): string => group.slice(READERS.length, group.lastIndexOf(':'));

/**
 * The value to write, in base64. `revision` is the revision of the grant. It is undefined for a new grant,
 * because the write itself determines the revision.
 */
export function valueOf(
  base: string,
  owner: string,
  info: string,
  revision?: string,
  isClaimed = false,
): string {
  const kept: { base: string; owner: string; revision?: string; info?: string; claimed?: boolean } = {
    base,
    owner,
  };
  // A spread would cost a microsecond even if it adds no property.
  if (revision !== undefined) kept.revision = revision;
  if (info !== '') kept.info = info;
  if (isClaimed) kept.claimed = true;
  // JSON preserves every string, including lone surrogates, and is readable for people.
  return base64(JSON.stringify(kept));
}

/** Throws a TypeError for a value that this kind of store did not write. */
export function grantOf(kv: KeyValue | undefined): Grant | undefined {
  if (kv === undefined) return undefined;
  const grant = parse(kv);
  if (grant !== undefined) return grant;
  throw new TypeError(`the value at ${JSON.stringify(fromBase64(kv.key))} is not a lease`);
}

/** Returns undefined for a value that this kind of store did not write. */
export function parse(kv: KeyValue): Grant | undefined {
  const { value, mod_revision = '', lease = '0' } = kv;
  try {
    const {
      base,
      owner,
      revision = mod_revision,
      info = '',
      readers,
      claimed,
    } = JSON.parse(fromBase64(value)) as { [name: string]: unknown };
    const areTexts = typeof owner === 'string' && typeof info === 'string';
    if (!areTexts || !isNumber(base) || !isNumber(revision)) return undefined;
    const isClaimed = claimed === true;
    if (typeof readers !== 'string') return { base, owner, revision, info, isClaimed, lease, kv };
    const group = groupName(owner.slice(READERS.length), tokenOf(base, revision));
    return { base, owner: group, revision, info, readers, lease, kv };
  } catch {
    // Not JSON.
  }
  return undefined;
}

/**
 * The token of a grant. Tokens rise with the revision. After a loss of all data in the cluster, tokens keep
 * rising only if the new base is greater.
 */
export function tokenOf(base: string, revision: string): bigint {
  return BigInt(base) + BigInt(revision);
}

/** The names that the server stores for keys: the prefix and the encoded key, in base64. */
export class KeyNames {
  readonly #prefix: string;
  readonly #putOff: string;
  /** The name of the key that stores the token base. */
  readonly base: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}lease/`;
    this.#putOff = `${prefix}put-off/`;
    this.base = base64(`${prefix}base`);
  }

  of(key: string): string {
    return base64(this.#prefix + encodeText(key));
  }

  /** The name of the key that puts off new readers of the key with this name. */
  putOff(name: string): string {
    return base64(this.#putOff + this.textOf(name));
  }

  /** The range of keys whose texts are in the given range and greater than `after`. */
  in({ from, after, to }: PageRange): { readonly key: string; readonly range_end: string } {
    // The smallest text greater than `after` is `after` followed by a NUL. No stored text contains a NUL.
    const first = after === '' ? from : `${after}\0`;
    return { key: base64(this.#prefix + first), range_end: base64(this.#prefix + to) };
  }

  /** The encoded key that the server stores under this name. */
  textOf(name: string): string {
    return fromBase64(name).slice(this.#prefix.length);
  }

  /**
   * A range with all lease keys and all keys that put off readers: the first key in the range, and the first key
   * after the range.
   */
  get all(): { readonly key: string; readonly range_end: string } {
    return { key: base64(this.#prefix), range_end: base64(`${this.#putOff.slice(0, -1)}0`) };
  }

  /** If this key puts off readers, returns the name of the lease key. Otherwise returns the name unchanged. */
  leaseOf(name: string): string {
    const text = fromBase64(name);
    return text.startsWith(this.#putOff) ? base64(this.#prefix + text.slice(this.#putOff.length)) : name;
  }
}

function isNumber(text: unknown): text is string {
  return typeof text === 'string' && /^\d{1,20}$/.test(text);
}

/** The answer to a batch of transactions. */
export interface Outcome {
  /** One part per transaction, in order. */
  readonly parts: readonly Message[];
  /** The revision after the batch. All writes of the batch have this revision. */
  readonly revision: string;
  /** The Raft term in which the servers agreed on the batch. */
  readonly term: string;
  /** See `again` of `Answer`. */
  readonly again: boolean;
}

/** Reads the grants of keys with a linearizable read. Also returns the Raft term of that read. */
export async function read(
  cluster: Cluster,
  operation: Operation,
  names: readonly string[],
): Promise<{ grants: (Grant | undefined)[]; term: string }> {
  const [key] = names;
  const isOne = names.length === 1;
  const { message } = isOne
    ? await cluster.call(operation, 'kv/range', { key })
    : await cluster.call(operation, 'kv/txn', { success: names.map(range) });
  const kvs = isOne ? [message.kvs?.[0]] : names.map((_, i) => kvOf(message.responses?.[i]));
  return { grants: kvs.map(grantOf), term: termOf(message) };
}

/** Sends transactions as one request. Each transaction succeeds or fails separately. */
export async function execute(
  cluster: Cluster,
  operation: Operation,
  txns: readonly Txn[],
): Promise<Outcome> {
  const single = txns.length === 1;
  const body = single ? txns[0]! : { success: txns.map((requestTxn) => ({ requestTxn })) };
  const { message, again } = await cluster.call(operation, 'kv/txn', body);
  const parts = single ? [message] : txns.map((_, i) => message.responses?.[i]?.response_txn ?? {});
  return { parts, revision: message.header?.revision ?? '0', term: termOf(message), again };
}

const NANOSECONDS = 1_000_000n;

/**
 * The base that is added to revisions: the time, in nanoseconds, at which the prefix was first used in this
 * cluster. If the cluster loses its data, its revisions start at 1 again. The new base is greater, so tokens
 * keep rising. Tokens may fall only if the clock was set back, or if the cluster had more than one revision
 * per nanosecond.
 */
export class TokenBase {
  readonly #cluster: Cluster;
  readonly #key: string;
  #known: string | undefined;
  /**
   * The highest token that this store has received. A new base exceeds this token even if the clock was set
   * back.
   */
  #highest = 0n;

  constructor(cluster: Cluster, key: string) {
    this.#cluster = cluster;
    this.#key = key;
  }

  /**
   * Returns the base that was read last, or reads it. This base may be outdated, so each transaction compares
   * it with the stored base.
   */
  async get(operation: Operation): Promise<string> {
    return this.#known ?? (await this.#read(operation));
  }

  /**
   * Call with the base that a transaction found. If this base differs from the known base, the next `get`
   * reads the base again.
   */
  found(kv: KeyValue | undefined): void {
    if (fromBase64(kv?.value) !== this.#known) this.#known = undefined;
  }

  seen(token: bigint): void {
    if (token > this.#highest) this.#highest = token;
  }

  /** Writes a base if none is stored, and returns the stored base. */
  async #read(operation: Operation): Promise<string> {
    // eslint-disable-next-line no-restricted-properties -- tokens are made from the wall clock
    const clock = BigInt(Date.now()) * NANOSECONDS;
    const first = String(clock > this.#highest ? clock : this.#highest + 1n);
    const { message } = await this.#cluster.call(operation, 'kv/txn', {
      compare: [isAbsent(this.#key)],
      success: [put(this.#key, base64(first)), range(this.#key)],
      failure: [range(this.#key)],
    });
    const { responses = [] } = message;
    const base = fromBase64(kvOf(responses[responses.length - 1])?.value);
    if (!/^\d{1,20}$/.test(base)) {
      throw new TypeError(`the value at ${JSON.stringify(fromBase64(this.#key))} is not a base of tokens`);
    }
    this.#known = base;
    return base;
  }
}

/** A key whose last known write was made by this store. */
export interface HeldKey {
  readonly grant: Grant;
  readonly lease: EtcdLease;
}

/** The maximum number of remembered keys. */
const REMEMBERED = 10_000;

/**
 * A cache of this store's own writes, by name. The cache saves reads. A stale entry can only make a
 * transaction fail.
 */
export class HeldKeys {
  readonly #leases: EtcdLeases;
  readonly #keys = new Map<string, HeldKey>();

  constructor(leases: EtcdLeases) {
    this.#leases = leases;
  }

  /** Undefined if the store has no entry for the key, or if the entry is for another owner. */
  of(name: string, owner: string): HeldKey | undefined {
    const held = this.#keys.get(name);
    return held?.grant.owner === owner ? held : undefined;
  }

  set(name: string, held: HeldKey): void {
    this.#keys.delete(name);
    this.#keys.set(name, held);
    const [oldest] = this.#keys.keys();
    if (this.#keys.size > REMEMBERED) this.#keys.delete(oldest!);
  }

  /**
   * Removes the entry and returns its etcd lease, if the entry says that the key is bound to the etcd lease
   * with this id.
   */
  take(name: string, id: string): EtcdLease | undefined {
    const held = this.#keys.get(name);
    if (held?.lease.id !== id) return undefined;
    this.#keys.delete(name);
    return held.lease;
  }

  /** Parks or revokes the etcd lease of a grant that was removed from the key. */
  leave(name: string, grant: Grant): void {
    this.#leases.unbound(grant.lease, this.take(name, grant.lease));
  }

  /** Removes the entry of this owner, because it is outdated or uncertain. Another owner's entry stays. */
  forget(name: string, owner: string): void {
    if (this.of(name, owner)) this.#keys.delete(name);
  }
}
