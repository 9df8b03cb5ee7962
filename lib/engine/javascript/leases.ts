import { performance, queueMicrotask } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import { FirstKeys } from '../../common/key-order.js';
import type {
  GateTable,
  LeaseEngine,
  LeaseInfo,
  LeaseTable,
  LeaseWatch,
  ListedLeaseInfo,
  SharedLeaseGrant,
} from '../contract/lease-table.js';
import { JavaScriptGate, type Highest } from './gate.js';
import { Numbered } from './numbered.js';

/**
 * The number of entries that one operation checks for expiry. An operation adds at most one entry, so expired
 * entries cannot accumulate.
 */
const SWEPT = 2;
/** The maximum number of abandoned keys that a table remembers. */
const REMEMBERED = 1024;

/**
 * The leases and gates of one thread, used if the addon does not load. Other threads cannot open these tables
 * and gates, because they are not in shared memory.
 */
export class JavaScriptLeases implements LeaseEngine {
  readonly name = 'javascript';
  /**
   * Undefined, because JavaScript has no suitable clock. Each of its clocks either stops while the machine is
   * suspended, or can be set.
   */
  readonly elapsed = undefined;
  readonly #tables = new Numbered<LeaseTable>();
  readonly id = this.#tables.id;
  readonly #gates = new Numbered<GateTable>();
  /**
   * The highest token of each gate. The index is the gate's number minus one. These objects are kept when the
   * gates are garbage-collected.
   */
  readonly #highest: Highest[] = [];

  openTable(_ownClock: boolean, number?: number): LeaseTable {
    if (number === undefined) {
      const made = ++this.#tables.last;
      return this.#tables.set(made, new JavaScriptLeaseTable(made));
    }
    const found = this.#tables.get(number);
    if (found === undefined) throw unknownNumber();
    return found;
  }

  openGate(capacity: number, number = this.#highest.push({ token: 0n })): GateTable {
    const highest = this.#highest[number - 1];
    if (highest === undefined) throw unknownNumber();
    return this.#gates.get(number) ?? this.#gates.set(number, new JavaScriptGate(number, capacity, highest));
  }
}

function unknownNumber(): LockError {
  return new LockError('ERR_LOCK_ENGINE', 'the handle refers to nothing that this thread still uses');
}

interface Entry {
  owner: string;
  readonly token: bigint;
  expiresAt: number;
  info: string;
  /** Whether the key was abandoned when this lease was granted. */
  abandoned: boolean;
  /** Whether `keep` has ended the lease. `owner` is then the name from `keep`. */
  kept: boolean;
  /** Whether the key is free, and the entry only puts off readers until `expiresAt`. */
  vacant: boolean;
  /** The readers that hold the key together. Undefined if an owner holds the key. */
  readonly group: Group | undefined;
}

interface Group {
  /** The names of the readers. */
  readonly readers: Set<string>;
  /** New readers are refused until this time. */
  putOffUntil: number;
}

/** A lease table with the rules of `native/core/leases/lease_table.h`, for a single thread. */
class JavaScriptLeaseTable implements LeaseTable {
  readonly number: number;
  readonly #entries = new Map<string, Entry>();
  /**
   * The position at which the next operation continues the search for expired entries. After the last entry,
   * the search restarts.
   */
  #sweep = this.#entries.entries();
  readonly #watches = new Map<string, Set<() => void>>();
  /**
   * The keys that have no entry and whose last lease ended without a release. Ordered by the end of that
   * lease.
   */
  readonly #lapsed = new Set<string>();
  #nextToken = BigInt(Date.now()) * 1_000_000n;

  constructor(number: number) {
    this.number = number;
  }

  get size(): number {
    return this.#entries.size;
  }

  tryAcquire(key: string, owner: string, ttl: number, at: number, info: string): bigint | number {
    const now = this.#tend(at);
    const last = this.#held(key, now);
    if (last !== undefined && last.owner !== owner) return last.expiresAt - now;
    const lease = { owner, expiresAt: now + ttl, info, group: undefined };
    const { token, abandoned } = this.#grant(key, lease, now);
    return abandoned ? -token : token;
  }

  renew(key: string, owner: string, ttl: number, at: number, info?: string): boolean {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.owner !== owner) return false;
    entry.expiresAt = Math.max(entry.expiresAt, now + ttl);
    if (info !== undefined && entry.group === undefined) entry.info = info;
    return true;
  }

  end(key: string, owner: string, at: number, token?: bigint): boolean {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.owner !== owner || entry.token !== (token ?? entry.token)) return false;
    this.#entries.delete(key);
    this.#callWatches(key);
    return true;
  }

  keep(key: string, owner: string, token: bigint, keptOwner: string, time: number, at: number): boolean {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.token !== token) return false;
    if (entry.kept) return entry.owner === keptOwner;
    if (entry.owner !== owner) return false;
    const kept = { owner: keptOwner, expiresAt: now + time, abandoned: false, kept: true, group: undefined };
    Object.assign(entry, kept);
    this.#callWatches(key);
    return true;
  }

  takeBack(key: string, owner: string, token: bigint, wasUsed: boolean, at: number): boolean {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.owner !== owner || entry.token !== token) return false;
    this.#entries.delete(key);
    if (endsAbandoned(entry, wasUsed)) this.#lapse(key);
    this.#callWatches(key);
    return true;
  }

  join(key: string, reader: string, ttl: number, at: number): SharedLeaseGrant | number {
    const now = this.#tend(at);
    let entry = this.#entries.get(key);
    if (entry === undefined || entry.expiresAt <= now) {
      const group = { readers: new Set([reader]), putOffUntil: -Infinity };
      entry = this.#grant(key, { owner: reader, expiresAt: now + ttl, info: '', group }, now);
      entry.owner += `:${entry.token}`;
    } else {
      const { group } = entry;
      if (group === undefined) return entry.expiresAt - now;
      if (!group.readers.has(reader)) {
        if (group.putOffUntil > now) return Math.min(entry.expiresAt, group.putOffUntil) - now;
        group.readers.add(reader);
      }
      entry.expiresAt = Math.max(entry.expiresAt, now + ttl);
    }
    const { owner, token, abandoned } = entry;
    return { group: owner, token: abandoned ? -token : token };
  }

  leave(key: string, reader: string, at: number): 'left' | 'freed' | undefined {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.group?.readers.delete(reader) !== true) return undefined;
    const { readers, putOffUntil } = entry.group;
    if (readers.size > 0) return 'left';
    if (putOffUntil > now) {
      Object.assign(entry, { expiresAt: putOffUntil, vacant: true, group: undefined });
    } else {
      this.#entries.delete(key);
      if (entry.abandoned) this.#lapse(key);
    }
    this.#callWatches(key);
    return 'freed';
  }

  putOffReaders(key: string, time: number, at: number): boolean {
    const now = timeOf(at);
    const group = this.#held(key, now)?.group;
    if (group === undefined) return false;
    group.putOffUntil = Math.max(group.putOffUntil, now + time);
    return true;
  }

  inspect(key: string, at: number): LeaseInfo | undefined {
    const now = timeOf(at);
    const entry = this.#held(key, now);
    return entry && infoOf(entry, now);
  }

  list(prefix: string, most: number, at: number): ListedLeaseInfo[] {
    const now = timeOf(at);
    const first = new FirstKeys<[key: string, entry: Entry]>(most, ([key]) => key);
    for (const [key, entry] of this.#entries) {
      if (entry.expiresAt > now && !entry.vacant && key.startsWith(prefix)) first.add([key, entry]);
    }
    return first.sorted().map(([key, entry]) => ({ key, ...infoOf(entry, now) }));
  }

  watch(key: string, freed: () => void): LeaseWatch {
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches.add(freed));
    const end = (): void => {
      watches.delete(freed);
      if (watches.size === 0) this.#watches.delete(key);
    };
    return { end };
  }

  /**
   * Grants a key that is free, or that the same owner holds. In the last case, the lease lasts at least as long
   * as before.
   */
  #grant(key: string, lease: Pick<Entry, 'owner' | 'expiresAt' | 'info' | 'group'>, now: number): Entry {
    const last = this.#entries.get(key);
    const hasLapsed = this.#lapsed.delete(key) || (last !== undefined && endsAbandoned(last));
    const held = this.#held(key, now);
    const abandoned = held?.abandoned ?? hasLapsed;
    const expiresAt = Math.max(lease.expiresAt, held?.expiresAt ?? -Infinity);
    const entry = { ...lease, expiresAt, token: this.#nextToken++, abandoned, kept: false, vacant: false };
    this.#entries.set(key, entry);
    return entry;
  }

  #held(key: string, now: number): Entry | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.expiresAt > now && !entry.vacant ? entry : undefined;
  }

  #callWatches(key: string): void {
    const watches = this.#watches.get(key);
    if (watches === undefined) return;
    queueMicrotask(() => {
      for (const freed of watches) freed();
    });
  }

  /** Checks a bounded number of entries, and removes the expired ones. Returns the current time. */
  #tend(at: number): number {
    const now = timeOf(at);
    for (let i = 0; i < SWEPT; i++) {
      const { done, value } = this.#sweep.next();
      if (done === true) {
        this.#sweep = this.#entries.entries();
        break;
      }
      const [key, entry] = value;
      if (entry.expiresAt > now) continue;
      this.#entries.delete(key);
      if (endsAbandoned(entry)) this.#lapse(key);
    }
    return now;
  }

  #lapse(key: string): void {
    this.#lapsed.add(key);
    if (this.#lapsed.size <= REMEMBERED) return;
    const [oldest] = this.#lapsed;
    this.#lapsed.delete(oldest!);
  }
}

/** Whether the key becomes abandoned when the entry ends without a release. */
function endsAbandoned({ abandoned, kept, vacant, group }: Entry, wasUsed = true): boolean {
  return vacant || kept || group !== undefined ? abandoned : wasUsed || abandoned;
}

function infoOf({ owner, token, expiresAt, info }: Entry, now: number): LeaseInfo {
  const state = { owner, token, remaining: expiresAt - now };
  return info === '' ? state : { ...state, info };
}

function timeOf(at: number): number {
  return Number.isNaN(at) ? performance.now() : at;
}
