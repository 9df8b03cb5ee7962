import { HostFinalizationRegistry } from '../../common/host.js';
import { quotedKeys } from '../../common/errors.js';
import type { Hold } from './hold.js';

const collected = new HostFinalizationRegistry<Hold>((hold) => hold.forgotten());

/**
 * The leases that use a hold. Until the first renewal it keeps them alive. From then on it only watches them: registering
 * an object for finalization costs more than an acquisition may, and most leases are released before.
 */
export class Users {
  readonly #hold: Hold;
  #kept: Set<object> | undefined = new Set();

  constructor(hold: Hold, first: object) {
    this.#hold = hold;
    this.#kept!.add(first);
  }

  add(lease: object): void {
    if (this.#kept) this.#kept.add(lease);
    else collected.register(lease, this.#hold, lease);
  }

  /** The lease was released. */
  delete(lease: object): void {
    if (this.#kept) this.#kept.delete(lease);
    else collected.unregister(lease);
  }

  /** From now on leases may be garbage-collected. */
  watch(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    this.#kept = undefined;
    for (const lease of kept) this.add(lease);
  }
}

export function warnForgotten(key: string): void {
  process.emitWarning(
    `the lease of ${quotedKeys([key])} was garbage-collected while held, so nobody can release it: ` +
      'it is not renewed any more, and ends with its TTL',
    { type: 'StripelockWarning', code: 'STRIPELOCK_LEASE_FORGOTTEN' },
  );
}
