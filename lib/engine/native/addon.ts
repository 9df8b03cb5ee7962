import type { LockKey } from '../../common/types.js';
import type { HoldingProcess } from '../contract/contention.js';
import type { Failure } from '../contract/engine.js';
import type { LeaseInfo, ListedLeaseInfo, SharedLeaseGrant } from '../contract/lease-table.js';
import type { FileFault, OpenFault, ProcessUse } from '../contract/process-locks.js';
import { loadBinary } from './binary.js';

/** The exports of `native/node/leases.cc` and `gates.cc`, which describe the arguments and results. */
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
  leaseEnd(table: number, key: string, at: number, owner: string, token: bigint): number;
  leaseKeep(
    table: number,
    key: string,
    at: number,
    owner: string,
    token: bigint,
    keptOwner: string,
    time: number,
  ): number;
  leaseTakeBack(
    table: number,
    key: string,
    at: number,
    owner: string,
    token: bigint,
    wasUsed: boolean,
  ): number;
  leaseJoin(table: number, key: string, at: number, reader: string, ttl: number): SharedLeaseGrant | number;
  leaseLeave(table: number, key: string, at: number, reader: string): number;
  leasePutOff(table: number, key: string, at: number, time: number): boolean;
  leaseInspect(table: number, key: string, at: number): LeaseInfo | undefined;
  leaseList(table: number, prefix: string, at: number, most: number): ListedLeaseInfo[];
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

/** The exports of `native/node/web_locks.cc`, which describes the arguments and results. */
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

/** A holder or waiter, and the note of its acquisition, which contains the call site. */
type TracedUse = Omit<ProcessUse, 'acquiredAt'> & { readonly note?: string };

/** The exports of `native/node/process_locks.cc`, which describes the arguments and results. */
interface ProcessLockAddon {
  processOpen(
    path: string,
    name: string,
    title: string,
    files: number,
    limit: number,
    access: number,
  ):
    | [file: number, table: number, words: Int32Array, keys: number, tokens: BigUint64Array, limit: number]
    | OpenFault
    | undefined;
  processClose(file: number): void;
  processPlace(file: number, key: LockKey): string;
  processHolders(file: number, key: LockKey): HoldingProcess[];
  processInspect(file: number): TracedUse[] | FileFault;
}

/** The exports of `native/node/signals.cc`, which describes the arguments and results. */
interface SignalAddon {
  countTerminalSignals(signal: number): boolean;
  takeTerminalSignal(signal: number): boolean;
}

/**
 * The addon's exports. The sources in `native/node` describe the arguments and results: `acquisitions.cc`,
 * `inspection.cc`, `exact_keys.cc`, `contention.cc` and `addon.cc`. `protocol.ts` explains the numbers in
 * them.
 */
export interface Addon extends LeaseAddon, WebLockAddon, ProcessLockAddon, SignalAddon {
  start(threadId: number, onReady: () => void): number;
  registryId(): [low: number, high: number];
  open(words: Int32Array, stripes: number, exact?: boolean, limit?: number, name?: string): number;
  close(table: number): void;
  metrics(): (string | number)[][];
  openCounts(kind: number, name: string, cells: Float64Array): void;
  startProfile(threshold: number, every: number, names: readonly string[]): boolean;
  stopProfile(): void;
  drawn(): number;
  draw(waited: number): number;
  sampling(): number;
  lockId(table: number): number;
  beginLeaseWait(place: string, waited: number): number;
  endLeaseWait(wait: number): number;
  drawLeaseRelease(place: string): number;
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
  tryEnter(table: number, stripe: number): boolean;
  cancel(id: number): boolean;
  release(table: number, stripe: number, mode: number, back?: boolean): number;
  fairIn(table: number, stripe: number): number;
  takeGrants(out: Int32Array): number;
  revokeIdleGrants(): void;
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

/** Loads the addon. Throws an `AddonMissing` if no binary loads. */
export function loadAddon(): Addon {
  // Native code has added the properties of the exports object, so V8 stores this object as a dictionary.
  // Optimized code would search the dictionary at each call. A copy is not stored as a dictionary.
  return { ...(loadBinary() as Addon) };
}
