import { LockError } from '../../errors.js';
import type { GateTable, LeaseEngine, LeaseInfo, LeaseTable, LeaseWatch } from '../lease-table.js';
import type { Addon } from './addon.js';

/** Watches that one call into the addon tells of. */
const BATCH = 128;

/** This thread's side of the addon's leases: hands the news of released keys to those who watch them. */
export class NativeLeases implements LeaseEngine {
  readonly name = 'native';
  readonly id: readonly [number, number];
  readonly addon: Addon;
  /** By the addon's id. */
  readonly #watches = new Map<number, () => void>();
  readonly #batch = new Int32Array(BATCH);
  /** What this thread has open, so that it is open once. */
  readonly #tables = new Map<number, WeakRef<NativeLeaseTable>>();
  readonly #closed = new FinalizationRegistry<{ number: number; index: number }>(({ number, index }) => {
    // A new one may have been opened before the old one was found to be gone.
    if (this.#tables.get(number)?.deref() === undefined) this.#tables.delete(number);
    this.addon.leaseClose(index);
  });
  readonly #closedGates = new FinalizationRegistry<number>((index) => {
    this.addon.gateClose(index);
  });
  #delivering = false;

  constructor(addon: Addon) {
    this.addon = addon;
    this.id = addon.registryId();
  }

  openTable(ownClock: boolean, number = this.addon.leaseIssue()): LeaseTable {
    const open = this.#tables.get(number)?.deref();
    if (open) return open;
    const index = this.addon.leaseOpen(number, ownClock);
    if (index < 0) throw unknownNumber();
    const table = new NativeLeaseTable(this, index, number);
    this.#tables.set(number, new WeakRef(table));
    this.#closed.register(table, { number, index });
    return table;
  }

  openGate(capacity: number, number = this.addon.leaseIssue()): GateTable {
    const index = this.addon.gateOpen(number, capacity);
    if (index < 0) throw unknownNumber();
    const gate = new NativeGate(this.addon, index, number, capacity);
    this.#closedGates.register(gate, index);
    return gate;
  }

  watch(id: number, freed: () => void): LeaseWatch {
    this.#watches.set(id, freed);
    return {
      end: () => {
        if (this.#watches.delete(id)) this.addon.leaseUnwatch(id);
      },
    };
  }

  /** What this thread released itself is delivered before it goes back to its event loop. */
  deliverSoon(): void {
    if (this.#delivering) return;
    this.#delivering = true;
    queueMicrotask(() => {
      this.#delivering = false;
      this.deliver();
    });
  }

  deliver(): void {
    let count: number;
    do {
      count = this.addon.leaseTake(this.#batch);
      // Looked up one by one: who is told may end the watch of another, whose id may be used again.
      const told = Array.from(this.#batch.subarray(0, count), (id) => ({ id, freed: this.#watches.get(id) }));
      for (const { id, freed } of told) if (freed && this.#watches.get(id) === freed) freed();
    } while (count === BATCH);
  }
}

class NativeLeaseTable implements LeaseTable {
  readonly number: number;
  readonly #leases: NativeLeases;
  readonly #addon: Addon;
  readonly #index: number;

  constructor(leases: NativeLeases, index: number, number: number) {
    this.number = number;
    this.#leases = leases;
    this.#addon = leases.addon;
    this.#index = index;
  }

  get size(): number {
    return this.#addon.leaseSize(this.#index);
  }

  tryAcquire(key: string, owner: string | undefined, ttl: number, at: number): bigint | undefined {
    return this.#addon.leaseAcquire(this.#index, key, owner, ttl, at);
  }

  takeTurn(key: string, owner: string | undefined, ttl: number, at: number): bigint | number {
    return this.#addon.leaseTakeTurn(this.#index, key, owner, ttl, at);
  }

  renew(key: string, holder: string | bigint, ttl: number, at: number): boolean {
    return this.#addon.leaseRenew(this.#index, key, holder, ttl, at);
  }

  release(key: string, holder: string | bigint, at: number): boolean {
    const freed = this.#addon.leaseRelease(this.#index, key, holder, at);
    if (freed === 2) this.#leases.deliverSoon();
    return freed !== 0;
  }

  inspect(key: string, at: number): LeaseInfo | undefined {
    return this.#addon.leaseInspect(this.#index, key, at);
  }

  watch(key: string, freed: () => void): LeaseWatch {
    return this.#leases.watch(this.#addon.leaseWatch(this.#index, key), freed);
  }
}

class NativeGate implements GateTable {
  readonly number: number;
  readonly capacity: number;
  readonly #addon: Addon;
  readonly #index: number;

  constructor(addon: Addon, index: number, number: number, capacity: number) {
    this.number = number;
    this.capacity = capacity;
    this.#addon = addon;
    this.#index = index;
  }

  get size(): number {
    return this.#addon.gateSize(this.#index);
  }

  admit(key: string, token: bigint): bigint | undefined {
    return this.#addon.gateAdmit(this.#index, key, token);
  }
}

function unknownNumber(): LockError {
  return new LockError('ERR_LOCK_ENGINE', 'the handle names nothing that was made in this process');
}
