import { performance } from '../../common/host.js';
import type { EtcdLease } from './etcd-leases.js';
import type { Grant } from './grant.js';

/** A key that this store has written, and is the last to have written as far as it knows. */
export interface HeldKey {
  readonly grant: Grant;
  readonly lease: EtcdLease;
}

/** With fewer, nobody looks for those that have expired. */
const FEW = 1000;

/** What this store has written, by name. It saves questions; the servers decide. */
export class HeldKeys {
  readonly #keys = new Map<string, HeldKey>();
  #sweepAt = FEW;

  /** Undefined if it is not known, or that of another owner. */
  of(name: string, owner: string): HeldKey | undefined {
    const held = this.#keys.get(name);
    return held?.grant.owner === owner ? held : undefined;
  }

  set(name: string, held: HeldKey): void {
    this.#keys.set(name, held);
    if (this.#keys.size >= this.#sweepAt) this.#sweep();
  }

  /** The etcd lease of a grant that is at the name no more, if it is known. */
  take(name: string, grant: Grant): EtcdLease | undefined {
    const held = this.#keys.get(name);
    if (held?.lease.id !== grant.lease) return undefined;
    this.#keys.delete(name);
    return held.lease;
  }

  forget(name: string): void {
    this.#keys.delete(name);
  }

  /** Leases that were left to expire. */
  #sweep(): void {
    const now = performance.now();
    for (const [name, { lease }] of this.#keys) {
      if (now - lease.since > lease.seconds * 1000) this.#keys.delete(name);
    }
    this.#sweepAt = Math.max(FEW, 2 * this.#keys.size);
  }
}
