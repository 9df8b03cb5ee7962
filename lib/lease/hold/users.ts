/** Told when one of the leases that use it was collected without having been released. */
export interface Forgetful {
  forgotten(): void;
}

const collected = new FinalizationRegistry<Forgetful>((hold) => hold.forgotten());

/**
 * The leases that use a hold. They are kept alive by it until it is renewed for the first time, and only watched from
 * then on: to register an object with the collector costs more than an acquisition may, and most leases are released
 * before.
 */
export class Users {
  readonly #hold: Forgetful;
  #kept: Set<object> | undefined = new Set();

  constructor(hold: Forgetful, first: object) {
    this.#hold = hold;
    this.#kept!.add(first);
  }

  add(lease: object): void {
    if (this.#kept) this.#kept.add(lease);
    else collected.register(lease, this.#hold, lease);
  }

  /** It was released. */
  delete(lease: object): void {
    if (this.#kept) this.#kept.delete(lease);
    else collected.unregister(lease);
  }

  watch(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    this.#kept = undefined;
    for (const lease of kept) this.add(lease);
  }
}
