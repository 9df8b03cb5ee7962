import type { LockKey } from '../../common/types.js';
import type { Failure } from '../contract/engine.js';
import type { LeaseInfo } from '../contract/lease-table.js';
import { loadBinary } from './binary.js';

/** What `native/node/leases.cc` and `gates.cc` export; they say what the arguments and results mean. */
interface LeaseAddon {
  leaseIssue(): number;
  leaseElapsed(): number;
  leaseOpen(number: number, ownClock: boolean): number;
  leaseClose(table: number): void;
  leaseAcquire(
    table: number,
    key: string,
    at: number,
    owner: string,
    ttl: number,
    info: string,
  ): bigint | number;
  leaseRenew(table: number, key: string, at: number, owner: string, ttl: number, info?: string): boolean;
  leaseKeep(table: number, key: string, at: number, owner: string, ttl: number, token: bigint): number;
  leaseRelease(table: number, key: string, at: number, owner: string, token: bigint): number;
  leaseInspect(table: number, key: string, at: number): LeaseInfo | undefined;
  leaseSize(table: number): number;
  leaseWatch(table: number, key: string): number;
  leaseUnwatch(id: number): boolean;
  takeReleasedKeys(out: Int32Array): number;
  gateIssue(): number;
  gateOpen(number: number, capacity: number): number;
  gateClose(gate: number): void;
  gateAdmit(gate: number, key: string, token: bigint): bigint | undefined;
  gateSize(gate: number): number;
}

/** What `native/node/web_locks.cc` exports; it says what the arguments and results mean. */
interface WebLockAddon {
  webLockExchange(numbers: Float64Array): void;
  webLockIssue(): number;
  webLockIsManager(number: number): boolean;
  webLockRequest(name: string): void;
  webLockCancel(): void;
  webLockRelease(): void;
  takeWebLockNews(out: Int32Array): number;
  webLockQuery(): (string | number | boolean)[];
  webLockSize(): number;
}

/** What `native/node/process_locks.cc` exports; it says what the arguments and results mean. */
interface ProcessLockAddon {
  processExchange(numbers: Float64Array): void;
  processOpen(path: string, title: string, files: number): number;
  processClose(file: number): void;
  processAttempt(file: number, keys: LockKey | readonly LockKey[], shared: boolean): void;
  processAcquireSync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    timeout: number,
  ): LockKey[] | undefined;
  processAcquireAsync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    mayGiveUp: boolean,
  ): void;
  processCancel(id: number, last: boolean): boolean;
  processRelease(id: number): boolean;
  takeProcessNews(): boolean;
  processInspect(file: number): (string | number | boolean | Uint8Array | undefined)[];
}

/** What `native/node/signals.cc` exports; it says what the arguments and results mean. */
interface SignalAddon {
  countTerminalSignals(signal: number): boolean;
  takeTerminalSignal(signal: number): boolean;
}

/**
 * What the addon exports. Its source says what the arguments and results mean: `acquisitions.cc`, `inspection.cc`,
 * `exact_keys.cc` and `addon.cc` in `native/node`. `protocol.ts` has the numbers that have a meaning.
 */
export interface Addon extends LeaseAddon, WebLockAddon, ProcessLockAddon, SignalAddon {
  start(threadId: number, onReady: () => void): number;
  registryId(): [low: number, high: number];
  open(words: Int32Array, stripes: number, exact?: boolean, limit?: number, name?: string): number;
  close(table: number): void;
  metrics(): (string | number)[][];
  startProfile(threshold: number, every: number, names: readonly string[]): boolean;
  stopProfile(): void;
  drawn(): number;
  draw(waited: number): number;
  sampling(): number;
  lockId(table: number): number;
  addRecord(record: string, draw: number): void;
  takeRecords(): (string | number)[];
  reuse(arenaLow: number, arenaHigh: number, stripes: number): number;
  own(table: number, arenaLow: number, arenaHigh: number, offset: number): void;
  share(table: number): void;
  sameMemory(a: Int32Array, b: Int32Array): boolean;
  openShares(table: number, counts: Int32Array): Int32Array;
  openLocals(table: number, counts: Int32Array): Int32Array;
  hash(key: string | Uint8Array, stripes: number): number;
  acquireSync(
    table: number,
    stripes: number | Int32Array,
    count: number,
    taken: number,
    mode: number,
    timeout: number,
    note?: string,
  ): number | Failure | undefined;
  acquireAsync(
    table: number,
    stripes: number | Int32Array,
    count: number,
    taken: number,
    mode: number,
    timeout: number,
    note?: string,
    waited?: number,
    arrival?: number,
  ): number | Failure;
  cancel(id: number): boolean;
  release(table: number, stripe: number, mode: number, back?: boolean): number;
  fairIn(table: number, stripe: number): number;
  takeGrants(out: Int32Array): number;
  lookForIdle(): void;
  expire(out: Int32Array): number;
  nextDeadline(): number;
  keepAlive(alive: boolean): void;
  holders(table: number, stripe: number): number[];
  held(table: number): number;
  locals(table: number): [waiting: number, contended: number];
  counts(table: number, stripe: LockKey): [word: number, waiting: number];
  inspect(table: number): {
    stripe: number;
    word: number;
    key?: LockKey;
    holders: number[];
    traced: { threadId: number; heldFor: number; note: string }[];
    waiters: { threadId: number; async: boolean; mode: number; waitingFor: number; note: string }[];
    locals: { threadId: number; count: number }[];
  }[];
  pin(table: number, key: LockKey, idle: number): number;
  unpin(table: number, stripes: Int32Array, count: number): number;
  inUse(table: number): number;
  addNote(table: number, stripes: Int32Array, note: string): number;
  removeNote(table: number, id: number): void;
}

/** Loads the addon. Throws an `AddonMissing` where no binary loads. */
export function loadAddon(): Addon {
  // V8 makes a dictionary of an object that native code has filled, and optimized code searches it at each call.
  return { ...(loadBinary() as Addon) };
}
