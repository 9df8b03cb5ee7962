import { performance } from '../../common/host.js';
import type { Cluster } from './cluster.js';
import type { Beat, EtcdLeases, EtcdLease, Length } from './etcd-leases.js';
import type { Grant, KeyNames } from './grant.js';
import type { HeldKeys } from './held.js';
import type { Operation } from './operation.js';
import { read } from './requests.js';
import type { TokenBase } from './token-base.js';

/** Milliseconds between questions while servers choose a leader. */
const PAUSE = 20;

/** What the operations of a store need of it. */
export interface Parts {
  readonly cluster: Cluster;
  readonly names: KeyNames;
  readonly base: TokenBase;
  readonly leases: EtcdLeases;
  readonly held: HeldKeys;
  /** Keeps or ends the etcd lease of a grant that is at the name no more. */
  dispose(name: string, grant: Grant): void;
}

/** What is asked for, checked. */
export interface Wanted {
  readonly owner: string;
  readonly info: string | undefined;
  readonly length: Length;
}

/** The place of the first that another owner has; -1 if there is none. */
export function foreignPlace(found: readonly (Grant | undefined)[], owner: string): number {
  return found.findIndex((grant) => grant !== undefined && grant.owner !== owner);
}

/**
 * Extends etcd leases, and reads keys afterwards. That this is answered in the same term proves that the leases were
 * extended: see {@link EtcdLeases.extend}.
 */
export async function refresh(
  { cluster, leases }: Parts,
  operation: Operation,
  names: readonly string[],
  of: readonly EtcdLease[],
): Promise<{ beat: Beat; found: readonly (Grant | undefined)[] }> {
  const ids = of.map(({ id }) => id);
  for (;;) {
    const asked = performance.now();
    const beat = await leases.extend(operation, ids);
    const { message, grants } = await read(cluster, operation, names);
    if (leases.confirm(beat, message, of, asked)) return { beat, found: grants };
    await operation.pause(PAUSE);
  }
}
