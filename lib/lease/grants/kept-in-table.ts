import { MAX_TTL } from '../contract/lease-store.js';
import type { Background, Hold } from '../hold/hold.js';
import { timeArgument } from '../memory/memory-store.js';
import type { TableGrants } from './table-grants.js';

/**
 * A hold that the memory table extends by itself while this thread lives. The event loop renews it as well, so that it
 * notices if somebody else frees the key. After a block the hold asks the table, which is never blocked.
 */
export class KeptInTable implements Background {
  readonly renews = false;
  readonly deadline = undefined;
  readonly #hold: Hold;
  readonly #grants: TableGrants;

  /** To be called right after the grant. */
  constructor(hold: Hold, grants: TableGrants) {
    this.#hold = hold;
    this.#grants = grants;
    const { ttl, maxHold } = hold.terms;
    this.#keep(grants.ttlInStore(ttl), Math.min(grants.ttlInStore(Math.max(ttl, maxHold)), MAX_TTL));
  }

  recover(): boolean {
    const grants = this.#grants;
    const hold = this.#hold;
    const { ttl, maxHold } = hold.terms;
    const before = grants.schedule.now();
    if (before - hold.since >= maxHold) return false;
    try {
      const at = timeArgument(grants.tableClock);
      if (!grants.table.renew(hold.name, hold.owner, grants.ttlInStore(ttl), at)) return false;
    } catch {
      // A clock of the caller's own can fail. The lease then expires.
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
    const { table, tableClock } = this.#grants;
    const { name, owner } = this.#hold;
    try {
      table.keep(name, owner, ttl, most, timeArgument(tableClock));
    } catch {
      // The same clock. A lease that is not kept is a usual one, and one that cannot be let go has a limit.
    }
  }
}
