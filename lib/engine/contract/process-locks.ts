import type { LockKey } from '../../common/types.js';
import type { LockTable } from './engine.js';

/** Why a file cannot be used: a number of `file-fault.ts`, and the system's error or 0. */
export interface FileFault {
  readonly fault: number;
  readonly number: number;
}

/** A holder or a waiter of a key. */
export interface ProcessUse {
  /** See {@link ProcessFile.placeOf}. */
  readonly place: string;
  /** Undefined where nobody said it. */
  readonly key: LockKey | undefined;
  readonly shared: boolean;
  readonly waits: boolean;
  readonly pid: number;
  readonly threadId: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Of another process; undefined for this one. */
  readonly title: string | undefined;
  /** Where a thread of this process acquired the key, if that was traced. */
  readonly acquiredAt: string | undefined;
}

/** A file, as one thread has it open. */
export interface ProcessFile {
  /** Its keys, of which the threads of this process and other processes are holders. Its fast path takes nothing. */
  readonly table: LockTable;
  /** A fencing token for who holds these stripes of the table. */
  token(stripes: readonly number[]): bigint;
  /** The same for equal keys, in all processes, and different for others. */
  placeOf(key: LockKey): string;
  inspect(): readonly ProcessUse[] | FileFault;
  /** Keys that are held stay held. */
  close(): void;
}

/** Locks on keys of files, for all processes of the machine. */
export interface ProcessLockEngine {
  /**
   * `name`: the label of the lock in metrics and profiles. `title`: the name of this process in others. `files`: the number of
   * files over which the keys are spread; 0 for the number of the process that created the file.
   */
  open(path: string, name: string, title: string, files: number): ProcessFile | FileFault;
}
