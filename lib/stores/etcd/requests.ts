import type { Cluster } from './cluster.js';
import { type EtcdFailure, isLeaseNotFound } from './failure.js';
import { grantIn, type Grant } from './grant.js';
import { kvOf, range, type Message, type Txn } from './messages.js';
import type { Operation } from './operation.js';

/** Who holds each of some keys, as all servers agree. */
export interface Reading {
  readonly message: Message;
  readonly grants: readonly (Grant | undefined)[];
}

/** The answer to transactions that were sent as one. */
export interface Outcome {
  /** In their order. */
  readonly parts: readonly Message[];
  /** Of the servers after that: that of what was written, if anything was. */
  readonly revision: string;
  /** See `Answer`. */
  readonly again: boolean;
}

export async function read(
  cluster: Cluster,
  operation: Operation,
  names: readonly string[],
): Promise<Reading> {
  const [name] = names;
  if (names.length === 1) {
    const { message } = await cluster.call(operation, 'kv/range', { key: name });
    return { message, grants: [grantOf(message.kvs?.[0])] };
  }
  const { message } = await cluster.call(operation, 'kv/txn', { success: names.map(range) });
  return { message, grants: names.map((_, i) => grantOf(kvOf(message.responses?.[i]))) };
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
  return { parts, revision: message.header?.revision ?? '0', again };
}

/**
 * Sends what names etcd leases at once with the requests that make these. If the servers come to it first, they refuse it,
 * and it is sent again when the leases are `made`.
 */
export async function whenMade<T>(made: Promise<unknown>, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!isLeaseNotFound(error) || (error as EtcdFailure).uncertain) throw error;
    await made;
    return send();
  }
}

export function grantOf(kv: Parameters<typeof grantIn>[0] | undefined): Grant | undefined {
  return kv && grantIn(kv);
}
