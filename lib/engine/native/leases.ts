import { DeferredCall } from '../../common/deferred-call.js';
import { LockError } from '../../common/errors.js';
import { HostFinalizationRegistry } from '../../common/host.js';
import type {
  GateTable,
  LeaseEngine,
  LeaseInfo,
  LeaseTable,
  LeaseWatch,
  ListedLeaseInfo,
  SharedLeaseGrant,
} from '../contract/lease-table.js';
import type { Addon } from './addon.js';
import { BATCH, LEASE_DONE_AND_READY, LEASE_LEFT, LEASE_NO, MORE, NOT_OPENED } from './protocol.js';

/** A wildcard token: it matches any grant of the owner. No lease has this token. */
const ANY_TOKEN = 0n;

/**
 * This thread's view of the leases in the addon. Calls this thread's callbacks when the keys that they watch
 * are released.
 */
export class NativeLeases implements LeaseEngine {
  readonly name = 'native';
  readonly id: readonly [number, number];
  readonly addon: Addon;
  readonly elapsed: () => number;
  /** The callbacks of the watches. The map's key is the addon's id of the watch. */
  readonly #watches = new Map<number, () => void>();
  readonly #batch = new Int32Array(BATCH);
  /** Closes tables and gates after this thread has stopped using them. */
  readonly #unused = new HostFinalizationRegistry<() => void>((close) => close());
  /** Calls {@link deliver} from a microtask, before the thread returns to its event loop. */
  readonly delivery = new DeferredCall(() => this.deliver());

  /**
   * The addon must already have started in this thread. If the constructor throws, it can be called again.
   */
  constructor(addon: Addon) {
    this.addon = addon;
    this.id = addon.registryId();
    this.elapsed = () => addon.leaseElapsed();
  }

  openTable(ownClock: boolean, number = this.addon.leaseIssue()): LeaseTable {
    const { addon } = this;
    const index = addon.leaseOpen(number, ownClock);
    if (index === NOT_OPENED) throw unknownNumber();
    const table = new NativeLeaseTable(this, index, number);
    this.#unused.register(table, () => addon.leaseClose(index));
    return table;
  }

  openGate(capacity: number, number = this.addon.gateIssue()): GateTable {
    const { addon } = this;
    const index = addon.gateOpen(number, capacity);
    if (index === NOT_OPENED) throw unknownNumber();
    const gate = new NativeGate(addon, index, number, capacity);
    this.#unused.register(gate, () => addon.gateClose(index));
    return gate;
  }

  /** Adds a callback for a watch. `id`: the addon's id of the watch. */
  watch(id: number, freed: () => void): LeaseWatch {
    this.#watches.set(id, freed);
    return {
      end: () => {
        if (this.#watches.delete(id)) this.addon.leaseUnwatch(id);
      },
    };
  }

  /** Calls the callbacks of the watches of released keys. */
  deliver(): void {
    let handedOver: number;
    do {
      handedOver = this.addon.takeReleasedKeys(this.#batch);
      const ids = this.#batch.subarray(0, handedOver & ~MORE);
      // All callbacks are looked up first. A callback may end another watch of this batch, and the id of that
      // watch may be reused immediately.
      const notified = Array.from(ids, (id) => ({ id, freed: this.#watches.get(id) }));
      for (const { id, freed } of notified) {
        if (this.#watches.get(id) === freed) freed?.();
      }
    } while ((handedOver & MORE) !== 0);
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

  tryAcquire(key: string, owner: string, ttl: number, at: number, info: string): bigint | number {
    return this.#addon.leaseAcquire(this.#index, key, at, owner, ttl, info);
  }

  renew(key: string, owner: string, ttl: number, at: number, info?: string): boolean {
    // The addon distinguishes undefined from an omitted argument.
    return info === undefined
      ? this.#addon.leaseRenew(this.#index, key, at, owner, ttl)
      : this.#addon.leaseRenew(this.#index, key, at, owner, ttl, info);
  }

  end(key: string, owner: string, at: number, token = ANY_TOKEN): boolean {
    return this.#ended(this.#addon.leaseEnd(this.#index, key, at, owner, token));
  }

  keep(key: string, owner: string, token: bigint, keptOwner: string, time: number, at: number): boolean {
    return this.#ended(this.#addon.leaseKeep(this.#index, key, at, owner, token, keptOwner, time));
  }

  takeBack(key: string, owner: string, token: bigint, wasUsed: boolean, at: number): boolean {
    return this.#ended(this.#addon.leaseTakeBack(this.#index, key, at, owner, token, wasUsed));
  }

  join(key: string, reader: string, ttl: number, at: number): SharedLeaseGrant | number {
    return this.#addon.leaseJoin(this.#index, key, at, reader, ttl);
  }

  leave(key: string, reader: string, at: number): 'left' | 'freed' | undefined {
    const status = this.#addon.leaseLeave(this.#index, key, at, reader);
    if (status === LEASE_LEFT) return 'left';
    return this.#ended(status) ? 'freed' : undefined;
  }

  putOffReaders(key: string, time: number, at: number): boolean {
    return this.#addon.leasePutOff(this.#index, key, at, time);
  }

  inspect(key: string, at: number): LeaseInfo | undefined {
    return this.#addon.leaseInspect(this.#index, key, at);
  }

  list(prefix: string, most: number, at: number): ListedLeaseInfo[] {
    return this.#addon.leaseList(this.#index, prefix, at, most);
  }

  watch(key: string, freed: () => void): LeaseWatch {
    return this.#leases.watch(this.#addon.leaseWatch(this.#index, key), freed);
  }

  #ended(status: number): boolean {
    // With this status, the calling thread itself watches the key. The addon does not wake the calling
    // thread, so the thread schedules the delivery.
    if (status === LEASE_DONE_AND_READY) this.#leases.delivery.schedule();
    return status !== LEASE_NO;
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
  return new LockError('ERR_LOCK_ENGINE', 'the handle refers to nothing that this process has created');
}
