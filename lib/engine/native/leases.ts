import { offsetOf } from '../../common/clock-offset.js';
import { DeferredCall } from '../../common/deferred-call.js';
import { LockError } from '../../common/errors.js';
import { HostFinalizationRegistry } from '../../common/host.js';
import type { GateTable, LeaseEngine, LeaseInfo, LeaseTable, LeaseWatch } from '../contract/lease-table.js';
import type { Addon } from './addon.js';
import {
  BATCH,
  EXCHANGE_AT,
  EXCHANGE_BYTES,
  EXCHANGE_GRANT,
  EXCHANGE_HINT,
  EXCHANGE_OFFSET,
  EXCHANGE_RETRY_AFTER,
  EXCHANGE_SINCE,
  EXCHANGE_STATUS,
  EXCHANGE_TABLE,
  EXCHANGE_TTL,
  LEASE_DONE_AND_READY,
  LEASE_NO,
  LEASE_UNKNOWN,
  MORE,
  NOT_OPENED,
} from './protocol.js';

/**
 * Memory for the numbers of this thread's calls for leases; `native/node/leases.h` says what each means. The results of
 * a call stay there until the next call.
 */
class LeaseExchange {
  readonly numbers: Float64Array;
  /** The same memory, in units of 32-bit integers. */
  readonly integers: Int32Array;

  constructor() {
    const memory = new SharedArrayBuffer(EXCHANGE_BYTES);
    this.numbers = new Float64Array(memory);
    this.integers = new Int32Array(memory);
  }

  /**
   * Gives the memory to the addon, with the difference of two clocks. The addon's clock and `performance.now()` both
   * read the platform's monotonic one, but count from different moments.
   */
  open(addon: Addon): void {
    this.numbers[EXCHANGE_OFFSET] = offsetOf(() => addon.leaseNow());
    addon.leaseExchange(this.numbers);
  }

  /** Sets what the next call is about. `table` is the addon's number for it; times are milliseconds. */
  ask(table: number, at: number, ttl: number): void {
    const { numbers } = this;
    numbers[EXCHANGE_TABLE] = table;
    numbers[EXCHANGE_AT] = at;
    numbers[EXCHANGE_TTL] = ttl;
  }
}

/** This thread's side of the addon's leases. Tells the watchers of a key that it was released. */
export class NativeLeases implements LeaseEngine {
  readonly name = 'native';
  readonly id: readonly [number, number];
  readonly addon: Addon;
  readonly elapsed: () => number;
  readonly #exchange = new LeaseExchange();
  /** The key is the addon's id. */
  readonly #watches = new Map<number, () => void>();
  readonly #batch = new Int32Array(BATCH);
  /** The tables that this thread has open, so that it opens each one once. */
  readonly #tables = new Map<number, WeakRef<NativeLeaseTable>>();
  readonly #closed = new HostFinalizationRegistry<{ number: number; index: number }>(({ number, index }) => {
    // A new one may have been opened before the garbage collector reported that the old one is gone.
    if (this.#tables.get(number)?.deref() === undefined) this.#tables.delete(number);
    this.addon.leaseClose(index);
  });
  readonly #closedGates = new HostFinalizationRegistry<number>((index) => {
    this.addon.gateClose(index);
  });
  /** Tells this thread's own watchers before the thread returns to its event loop. */
  readonly delivery = new DeferredCall(() => this.deliver());

  /** To be made when the addon has started. If this throws, another attempt starts afresh. */
  constructor(addon: Addon) {
    this.addon = addon;
    this.id = addon.registryId();
    this.elapsed = () => addon.leaseElapsed();
    this.#exchange.open(addon);
  }

  openTable(ownClock: boolean, number = this.addon.leaseIssue()): LeaseTable {
    const open = this.#tables.get(number)?.deref();
    if (open) return open;
    const index = this.addon.leaseOpen(number, ownClock);
    if (index === NOT_OPENED) throw unknownNumber();
    const table = new NativeLeaseTable(this, this.#exchange, index, number);
    this.#tables.set(number, new WeakRef(table));
    this.#closed.register(table, { number, index });
    return table;
  }

  openGate(capacity: number, number = this.addon.gateIssue()): GateTable {
    const index = this.addon.gateOpen(number, capacity);
    if (index === NOT_OPENED) throw unknownNumber();
    const gate = new NativeGate(this.addon, index, number, capacity);
    this.#closedGates.register(gate, index);
    return gate;
  }

  /** `id` is the addon's number for the watch. */
  watch(id: number, freed: () => void): LeaseWatch {
    this.#watches.set(id, freed);
    return {
      end: () => {
        if (this.#watches.delete(id)) this.addon.leaseUnwatch(id);
      },
    };
  }

  /** Calls the watchers of keys that have been released. */
  deliver(): void {
    let handedOver: number;
    do {
      handedOver = this.addon.takeReleasedKeys(this.#batch);
      const ids = this.#batch.subarray(0, handedOver & ~MORE);
      // A call may end the watch of another key, and the id may be in use again.
      const told = Array.from(ids, (id) => ({ id, freed: this.#watches.get(id) }));
      for (const { id, freed } of told) {
        if (this.#watches.get(id) === freed) freed?.();
      }
    } while ((handedOver & MORE) !== 0);
  }
}

class NativeLeaseTable implements LeaseTable {
  readonly number: number;
  readonly #leases: NativeLeases;
  readonly #addon: Addon;
  readonly #exchange: LeaseExchange;
  readonly #index: number;
  readonly #firstToken: bigint;

  constructor(leases: NativeLeases, exchange: LeaseExchange, index: number, number: number) {
    this.number = number;
    this.#leases = leases;
    this.#addon = leases.addon;
    this.#exchange = exchange;
    this.#index = index;
    this.#firstToken = leases.addon.leaseFirstToken(index);
  }

  get size(): number {
    return this.#addon.leaseSize(this.#index);
  }

  get granted(): number {
    return this.#exchange.numbers[EXCHANGE_GRANT]!;
  }

  get grantedAt(): number {
    return this.#exchange.numbers[EXCHANGE_SINCE]!;
  }

  get grantedHint(): number {
    return this.#exchange.integers[EXCHANGE_HINT]!;
  }

  tokenOf(granted: number): bigint {
    return this.#firstToken + BigInt(granted);
  }

  tryAcquire(key: string, owner: string | undefined, ttl: number, at: number): boolean {
    const exchange = this.#exchange;
    exchange.ask(this.#index, at, ttl);
    // Passing undefined would cost more than passing nothing.
    if (owner === undefined) this.#addon.leaseAcquire(key);
    else this.#addon.leaseAcquire(key, owner);
    return exchange.integers[EXCHANGE_STATUS] !== LEASE_NO;
  }

  takeTurn(key: string, owner: string | undefined, ttl: number, at: number): number {
    const exchange = this.#exchange;
    exchange.ask(this.#index, at, ttl);
    if (owner === undefined) this.#addon.leaseTakeTurn(key);
    else this.#addon.leaseTakeTurn(key, owner);
    return exchange.integers[EXCHANGE_STATUS] === LEASE_NO ? exchange.numbers[EXCHANGE_RETRY_AFTER]! : 0;
  }

  renew(key: string, owner: string, ttl: number, at: number): boolean {
    const exchange = this.#exchange;
    exchange.ask(this.#index, at, ttl);
    this.#addon.leaseRenew(key, owner);
    return this.#done();
  }

  setInfo(key: string, owner: string, info: string, at: number): boolean {
    const exchange = this.#exchange;
    exchange.ask(this.#index, at, 0);
    this.#addon.leaseSetInfo(key, owner, info);
    return exchange.integers[EXCHANGE_STATUS] !== LEASE_NO;
  }

  keep(key: string, owner: string, ttl: number, most: number, at: number): boolean {
    return this.#addon.leaseKeep(key, owner, this.#index, at, ttl, most);
  }

  release(key: string, owner: string, at: number): boolean {
    this.#exchange.ask(this.#index, at, 0);
    this.#addon.leaseRelease(key, owner);
    return this.#done();
  }

  releaseGranted(key: string, granted: number, hint: number, at: number): boolean {
    const exchange = this.#exchange;
    exchange.ask(this.#index, at, 0);
    exchange.numbers[EXCHANGE_GRANT] = granted;
    exchange.integers[EXCHANGE_HINT] = hint;
    this.#addon.leaseReleaseHinted();
    if (exchange.integers[EXCHANGE_STATUS] === LEASE_UNKNOWN) this.#addon.leaseRelease(key);
    return this.#done();
  }

  inspect(key: string, at: number): LeaseInfo | undefined {
    this.#exchange.ask(this.#index, at, 0);
    return this.#addon.leaseInspect(key);
  }

  watch(key: string, freed: () => void): LeaseWatch {
    return this.#leases.watch(this.#addon.leaseWatch(this.#index, key), freed);
  }

  /** Whether it was done. It may have called watches of this thread. */
  #done(): boolean {
    const status = this.#exchange.integers[EXCHANGE_STATUS]!;
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
  return new LockError('ERR_LOCK_ENGINE', 'the handle names nothing that was made in this process');
}
