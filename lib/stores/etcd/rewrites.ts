import type { Operation } from '../requests.js';
import type { Owned, Wanted } from '../server-store.js';
import type { Cluster } from './cluster.js';
import type { EtcdLease } from './etcd-leases.js';
import { isUnchanged, kvOf, put, range } from './gateway.js';
import { execute, grantOf, valueOf, type Grant } from './keys.js';

/** Keys to renew, to keep, to release or to claim. */
export interface Writing extends Owned {
  /** The owner to write. If undefined, the owner stays unchanged. */
  readonly keptOwner?: string | undefined;
  /** See {@link Grant.isClaimed}. Default false. */
  readonly claims?: boolean | undefined;
}

/** A key to renew, to keep, to release or to claim. */
export interface Step<W extends Writing = Wanted & Writing> {
  readonly name: string;
  readonly wanted: W;
  /** The token of the required grant. If undefined, any grant of the owner matches. */
  readonly token: bigint | undefined;
  /** The last known grant of the key. */
  found: Grant | undefined;
  isDone: boolean;
  /** Whether another client wrote the key last, and a server did not know the key's etcd lease. */
  isLeaseUnknown: boolean;
}

/**
 * Writes those keys that are unchanged since they were read, and updates `found`. Tokens do not change.
 * Returns for each key whether it was written.
 */
export async function rewrite(
  cluster: Cluster,
  keys: readonly Step[],
  leases: readonly Pick<EtcdLease, 'id'>[],
  operation: Operation,
): Promise<{ written: readonly boolean[]; term: string; again: boolean }> {
  if (keys.length === 0) return { written: [], term: '', again: false };
  const next = keys.map(({ found, wanted }, i): Grant => {
    const { base, revision } = found!;
    const { keptOwner: owner = found!.owner, info = found!.info, claims: isClaimed } = wanted;
    const kv = { value: valueOf(base, owner, info, revision, isClaimed) };
    return { base, owner, revision, info, isClaimed, lease: leases[i]!.id, kv };
  });
  const txns = keys.map(({ name, found }, i) => ({
    compare: isUnchanged(name, found!.kv),
    success: [put(name, next[i]!.kv.value!, leases[i]!.id)],
    failure: [range(name)],
  }));
  const { parts, revision, term, again } = await execute(cluster, operation, txns);
  const written = keys.map((key, i) => {
    const { succeeded = false, responses } = parts[i]!;
    const now = succeeded ? undefined : grantOf(kvOf(responses?.[0]));
    const { kv, lease } = next[i]!;
    // True if an earlier copy of the same request succeeded. If the key keeps its etcd lease, another client may
    // have written the same value.
    const isRepeated = again && lease !== key.found!.lease && now?.lease === lease;
    const isWritten = succeeded || (isRepeated && now.kv.value === kv.value);
    const mod_revision = now?.kv.mod_revision ?? revision;
    key.found = isWritten ? { ...next[i]!, kv: { ...kv, mod_revision } } : now;
    return isWritten;
  });
  return { written, term, again };
}
