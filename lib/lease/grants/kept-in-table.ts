import type { LeaseTable } from '../../engine/contract/lease-table.js';
import { MAX_TTL, type Clock } from '../contract/lease-store.js';
import type { Background } from '../hold/hold.js';
import type { Hold } from '../hold/hold.js';
import { timeArgument } from '../memory/memory-store.js';

/** The table of a memory store, and how it keeps leases. */
export interface KeepingTable {
  readonly table: LeaseTable;
  /** The table's clock; undefined if the table reads its own. */
  readonly clock: Clock | undefined;
  /** The manager's clock. */
  readonly schedule: { now(): number };
  ttlInStore(ttl: number): number;
}

/**
 * A hold that the memory table extends by itself while this thread lives. The event loop renews it as well, so that it
 * notices if somebody else frees the key. After a block the hold asks the table, which is never blocked.
 */
export class KeptInTable implements Background {
  readonly renews = false;
  readonly deadline = undefined;
  readonly #hold: Hold;
  readonly #in: KeepingTable;

  /** To be called right after the grant. */
  constructor(hold: Hold, keeping: KeepingTable) {
    this.#hold = hold;
    this.#in = keeping;
    const { ttl, maxHold } = hold.terms;
    this.#keep(keeping.ttlInStore(ttl), Math.min(keeping.ttlInStore(Math.max(ttl, maxHold)), MAX_TTL));
  }

  recover(): boolean {
    const { table, clock, schedule } = this.#in;
    const hold = this.#hold;
    const { ttl, maxHold } = hold.terms;
    const before = schedule.now();
    if (before - hold.since >= maxHold) return false;
    try {
      if (!table.renew(hold.key, hold.owner, this.#in.ttlInStore(ttl), timeArgument(clock))) return false;
    } catch {
      // A clock of the caller's own can fail. The lease then ends when its time is over.
      return false;
    }
    hold.expiresAt = before + ttl;
    return true;
  }

  renew(): Promise<boolean> {
    return Promise.resolve(false);
  }

  end(): Promise<void> {
    this.#keep(0, 0);
    return Promise.resolve();
  }

  #keep(ttl: number, most: number): void {
    const { table, clock } = this.#in;
    const { key, owner } = this.#hold;
    try {
      table.keep(key, owner, ttl, most, timeArgument(clock));
    } catch {
      // The same clock. A lease that is not kept is a usual one, and one that cannot be let go has a limit.
    }
  }
}
