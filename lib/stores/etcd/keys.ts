import { encodeText } from '../exact-text.js';
import type { Operation } from '../requests.js';
import type { Cluster } from './cluster.js';
import type { EtcdLease } from './etcd-leases.js';
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

/** What stands at a key that is held. */
export interface Grant {
  /** What revisions are added to. */
  readonly base: string;
  readonly owner: string;
  /** The revision of the grant, if the key was written again since; otherwise that of the key. */
  readonly revision: string;
  /** Empty for none. */
  readonly info: string;
  /** The etcd lease that the key is bound to. */
  readonly lease: string;
  /** The text that is stored. */
  readonly kv: KeyValue;
}

/** What is written at a key, in base64. `revision`: of the grant, if this is not the first write. */
export function valueOf(base: string, owner: string, info: string, revision?: string): string {
  const kept: { base: string; owner: string; revision?: string; info?: string } = { base, owner };
  // Not spread, which takes more than a microsecond where there is nothing to spread.
  if (revision !== undefined) kept.revision = revision;
  if (info !== '') kept.info = info;
  // JSON keeps every text, also with lone surrogates, and a person can read it.
  return base64(JSON.stringify(kept));
}

/** Throws a TypeError for what no store of this kind has written. */
export function grantOf(kv: KeyValue | undefined): Grant | undefined {
  if (kv === undefined) return undefined;
  const { value, mod_revision = '', lease = '0', key } = kv;
  try {
    const {
      base,
      owner,
      revision = mod_revision,
      info = '',
    } = JSON.parse(fromBase64(value)) as { [name: string]: unknown };
    const areTexts = typeof owner === 'string' && typeof info === 'string';
    if (areTexts && isNumber(base) && isNumber(revision)) return { base, owner, revision, info, lease, kv };
  } catch {
    // Not JSON.
  }
  throw new TypeError(`the value at ${JSON.stringify(fromBase64(key))} is not a lease`);
}

/** Rises as long as revisions do, and over the loss of all data if the base is greater then. */
export function tokenOf(base: string, revision: string): bigint {
  return BigInt(base) + BigInt(revision);
}

/** Where the keys of a prefix are, in base64. */
export class KeyNames {
  readonly #prefix: string;
  /** What revisions are added to stands there. */
  readonly base: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}lease/`;
    this.base = base64(`${prefix}base`);
  }

  of(key: string): string {
    return base64(this.#prefix + encodeText(key));
  }

  /** All keys of leases: from the first to the one that follows the last. */
  get all(): { readonly key: string; readonly range_end: string } {
    return { key: base64(this.#prefix), range_end: base64(`${this.#prefix.slice(0, -1)}0`) };
  }
}

function isNumber(text: unknown): text is string {
  return typeof text === 'string' && /^\d{1,20}$/.test(text);
}

/** The answer to transactions that were sent as one. */
export interface Outcome {
  /** In their order. */
  readonly parts: readonly Message[];
  /** The revision of the servers after that: that of what was written, if anything was. */
  readonly revision: string;
  /** In which they agreed on it. */
  readonly term: string;
  /** See `Answer`. */
  readonly again: boolean;
}

/** Who holds each of the keys, as all servers agree, and in which term they do. */
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

/** Each on its own: one that does nothing does not keep the others from what they do. */
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
 * What tokens are counted from: the time, in nanoseconds, at which somebody first used the prefix in this cluster. A
 * cluster that has lost its data counts its revisions anew, from a base that is greater, unless it took more than a
 * revision in each nanosecond, or the clock goes back.
 */
export class TokenBase {
  readonly #cluster: Cluster;
  readonly #key: string;
  #known: string | undefined;
  /** The highest token that this store has seen. A new base is greater, whatever the clock shows. */
  #highest = 0n;

  constructor(cluster: Cluster, key: string) {
    this.#cluster = cluster;
    this.#key = key;
  }

  /** The base when it was last read. Only a transaction that compares it proves that it still is. */
  async get(operation: Operation): Promise<string> {
    return this.#known ?? (await this.#read(operation));
  }

  /** What a transaction has found at the key. If that is not what `get` returned, it is read again. */
  found(kv: KeyValue | undefined): void {
    if (fromBase64(kv?.value) !== this.#known) this.#known = undefined;
  }

  seen(token: bigint): void {
    if (token > this.#highest) this.#highest = token;
  }

  /** Writes it, unless somebody has. */
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

/** A key that this store has written, and is the last to have written as far as it knows. */
export interface HeldKey {
  readonly grant: Grant;
  readonly lease: EtcdLease;
}

/** For how many keys it is remembered. */
const REMEMBERED = 10_000;

/** What this store has written, by name. It saves questions; the servers decide. */
export class HeldKeys {
  readonly #keys = new Map<string, HeldKey>();

  /** Undefined if it is not known, or that of another owner. */
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

  /** The etcd lease of this id, if the name is known to be bound to it, which it is not any more. */
  take(name: string, id: string): EtcdLease | undefined {
    const held = this.#keys.get(name);
    if (held?.lease.id !== id) return undefined;
    this.#keys.delete(name);
    return held.lease;
  }

  /** The owner does not have it any more, or nobody knows. What another owner has stays known. */
  forget(name: string, owner: string): void {
    if (this.of(name, owner)) this.#keys.delete(name);
  }
}
