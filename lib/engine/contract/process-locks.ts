import type { LockKey } from '../../common/types.js';

/** A held acquisition of a file's keys, for {@link ProcessLockEngine.release}. */
export interface ProcessHold {
  /** The engine's number of the acquisition while it waits or holds; else -1. */
  id: number;
  token: bigint;
  /** An earlier holder died. */
  abandoned: boolean;
}

/** Why a file cannot be used: a `FileFault` of `native/core/lock_file.h`, and the system's error or 0. */
export interface FileFault {
  readonly fault: number;
  readonly number: number;
}

/** An acquisition that could never have ended. */
export interface ProcessDeadlock {
  readonly status: 'deadlock';
  /** They wait for each other in this order; only one, if it would wait for itself. */
  readonly threads: readonly number[];
  /** The key that each of them waits for. */
  readonly awaited: readonly LockKey[];
}

/** What came of an acquisition. Unless it was granted or is pending, nothing is held. */
export type ProcessOutcome =
  | { readonly status: 'granted' | 'pending' | 'timeout' | 'interrupted' }
  | ProcessDeadlock
  | ({ readonly status: 'failed' } & FileFault);

/** An acquisition that waits on the event loop. */
export interface ProcessWaiter {
  readonly hold: ProcessHold;
  /** Called when it has become pending. If it throws, the acquisition is cancelled. */
  begin(): void;
  /** Called once, unless it is cancelled: when it was granted, or failed. Must not throw. */
  settle(outcome: ProcessOutcome): void;
}

/** A holder or a waiter of a key. */
export interface ProcessUse {
  /** The same for equal keys. */
  readonly place: string;
  /** Undefined if it is not known. */
  readonly key: LockKey | undefined;
  readonly shared: boolean;
  readonly waits: boolean;
  readonly pid: number;
  readonly threadId: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Of another process; undefined for this one. */
  readonly title: string | undefined;
}

/** Locks on keys of a file, for all processes of the machine, as one thread uses them. */
export interface ProcessLockEngine {
  /**
   * The file's number in this thread. `title` is what other processes show of this one. `files`: the number of files that
   * share its locks; 0 for the number that its creator chose.
   */
  open(path: string, title: string, files: number): number | FileFault;
  /** As many times as {@link open} returned the number. What is held stays held. */
  close(file: number): void;
  /** One attempt. */
  attempt(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    hold: ProcessHold,
  ): ProcessOutcome;
  /** Blocks the thread. */
  acquireSync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    timeout: number,
    hold: ProcessHold,
  ): ProcessOutcome;
  /** If it is pending, the waiter has begun, and is settled later. */
  acquireAsync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    mayGiveUp: boolean,
    waiter: ProcessWaiter,
  ): ProcessOutcome;
  /**
   * Ends one that waits. False if it is settled. `last`: its time is up, so what is idle is taken for it. False if it got
   * that: it is settled soon.
   */
  cancel(waiter: ProcessWaiter, last?: boolean): boolean;
  /** Settles all that can be. */
  deliver(): void;
  release(hold: ProcessHold): void;
  inspect(file: number): readonly ProcessUse[] | FileFault;
}
