import { performance, queueMicrotask } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import {
  anonymousOwner,
  type GateTable,
  type LeaseEngine,
  type LeaseInfo,
  type LeaseTable,
  type LeaseWatch,
} from '../contract/lease-table.js';
import { JavaScriptGate, type Highest } from './gate.js';
import { Numbered } from './numbered.js';

/** Entries that one operation looks at, to sweep those that have expired: more than it can add. */
const SWEPT = 2;

/**
 * Leases and gates of one thread, for where the addon does not load. Other threads cannot open them, as they do not
 * share their memory.
 */
export class JavaScriptLeases implements LeaseEngine {
  readonly name = 'javascript';
  /** JavaScript's clocks stand still while the machine is suspended, or can be set. */
  readonly elapsed = undefined;
  readonly #tables = new Numbered<LeaseTable>();
  readonly id = this.#tables.id;
  readonly #gates = new Numbered<GateTable>();
  /** The gates by their numbers, as they outlive those who use them. */
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
  return new LockError('ERR_LOCK_ENGINE', 'the handle names nothing that this thread still uses');
}

interface Entry {
  owner: string;
  /** The number of its grant. */
  granted: number;
  expiresAt: number;
  info: string;
  /** Undefined for a usual lease. */
  kept: Kept | undefined;
}

/** How long a lease that is kept is extended each time, and until when at most. */
interface Kept {
  readonly ttl: number;
  readonly limit: number;
}

/**
 * The same rules as `native/core/lease_table.h`, for one thread. Whoever looks at a kept lease is in the thread that
 * keeps it, which therefore lives (I5).
 */
class JavaScriptLeaseTable implements LeaseTable {
  readonly number: number;
  granted = -1;
  grantedAt = NaN;
  readonly grantedHint = 0;
  readonly #entries = new Map<string, Entry>();
  /** Where the sweep is. It goes round and round. */
  #sweep = this.#entries.entries();
  readonly #watches = new Map<string, Set<() => void>>();
  readonly #firstToken = BigInt(Date.now()) * 1_000_000n;

  constructor(number: number) {
    this.number = number;
  }

  get size(): number {
    return this.#entries.size;
  }

  tokenOf(granted: number): bigint {
    return this.#firstToken + BigInt(granted);
  }

  tryAcquire(key: string, owner: string | undefined, ttl: number, at: number): boolean {
    const now = this.#tend(at);
    const entry = this.#entries.get(key);
    if (isHeld(entry, now) && entry.owner !== owner) return false;
    this.grantedAt = now;
    const granted = ++this.granted;
    const name = owner ?? anonymousOwner(this.tokenOf(granted));
    this.#entries.set(key, { owner: name, granted, expiresAt: now + ttl, info: '', kept: undefined });
    return true;
  }

  takeTurn(key: string, owner: string | undefined, ttl: number, at: number): number {
    if (this.tryAcquire(key, owner, ttl, at)) return 0;
    // The clock may have reached it meanwhile.
    return Math.max(this.#entries.get(key)!.expiresAt - timeOf(at), Number.MIN_VALUE);
  }

  renew(key: string, owner: string, ttl: number, at: number): boolean {
    const now = this.#tend(at);
    const entry = this.#held(key, now);
    if (entry?.owner !== owner) return false;
    const sooner = now + ttl < entry.expiresAt;
    entry.expiresAt = now + ttl;
    if (sooner) this.#callWatch(key);
    return true;
  }

  setInfo(key: string, owner: string, info: string, at: number): boolean {
    const entry = this.#held(key, timeOf(at));
    if (entry?.owner !== owner) return false;
    entry.info = info;
    return true;
  }

  keep(key: string, owner: string, ttl: number, most: number, at: number): boolean {
    const entry = this.#held(key, timeOf(at));
    if (entry?.owner !== owner) return false;
    entry.kept = ttl === 0 ? undefined : { ttl, limit: entry.expiresAt - ttl + most };
    return true;
  }

  release(key: string, owner: string, at: number): boolean {
    const entry = this.#held(key, this.#tend(at));
    return entry?.owner === owner && this.#free(key);
  }

  releaseGranted(key: string, granted: number, _hint: number, at: number): boolean {
    const entry = this.#held(key, this.#tend(at));
    return entry?.granted === granted && this.#free(key);
  }

  inspect(key: string, at: number): LeaseInfo | undefined {
    const now = timeOf(at);
    const entry = this.#entries.get(key);
    if (!isHeld(entry, now)) return undefined;
    const { owner, granted, expiresAt, info } = entry;
    const state = { owner, token: this.tokenOf(granted), remaining: expiresAt - now };
    return info === '' ? state : { ...state, info };
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

  #held(key: string, now: number): Entry | undefined {
    const entry = this.#entries.get(key);
    return isHeld(entry, now) ? entry : undefined;
  }

  #free(key: string): boolean {
    this.#entries.delete(key);
    this.#callWatch(key);
    return true;
  }

  #callWatch(key: string): void {
    const watches = this.#watches.get(key);
    if (watches === undefined) return;
    queueMicrotask(() => {
      for (const freed of watches) freed();
    });
  }

  /** Sweeps expired ones of a bounded number of entries; returns the time. */
  #tend(at: number): number {
    const now = timeOf(at);
    for (let i = 0; i < SWEPT; i++) {
      const { done, value } = this.#sweep.next();
      if (done === true) {
        this.#sweep = this.#entries.entries();
        break;
      }
      const [key, entry] = value;
      if (!isHeld(entry, now)) this.#entries.delete(key);
    }
    return now;
  }
}

/** Extends a kept lease whose time is over. */
function isHeld(entry: Entry | undefined, now: number): entry is Entry {
  if (entry === undefined) return false;
  const { kept } = entry;
  if (entry.expiresAt <= now && kept)
    entry.expiresAt = Math.max(entry.expiresAt, Math.min(now + kept.ttl, kept.limit));
  return entry.expiresAt > now;
}

function timeOf(at: number): number {
  return Number.isNaN(at) ? performance.now() : at;
}
