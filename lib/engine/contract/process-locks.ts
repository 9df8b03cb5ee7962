import type { LockKey } from '../../common/types.js';
import type { LockTable } from './engine.js';

/** Why a file cannot be used: a number of `file-fault.ts`, and the system's error or 0. */
export interface FileFault {
  readonly fault: number;
  readonly number: number;
}

/** Why a file could not be opened. */
export interface OpenFault extends FileFault {
  /** The file beside it that has the fault: 1 for `.1` and so on. 0: the file itself. */
  readonly part: number;
  /** For `UNSAFE`: the user that owns the file, and its permissions. */
  readonly owner: number;
  readonly mode: number;
}

/** A holder or a waiter of a key. */
export interface ProcessUse {
  /** See {@link ProcessFile.placeOf}. */
  readonly place: string;
  /** Undefined if no process shows it. */
  readonly key: LockKey | undefined;
  readonly shared: boolean;
  readonly waits: boolean;
  readonly pid: number;
  readonly threadId: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  /** The title of the process, if it is another one; undefined for this one. */
  readonly title: string | undefined;
  /** Where a thread of this process acquired the key, if that was traced. */
  readonly acquiredAt: string | undefined;
}

/** A file, as one thread has it open. */
export interface ProcessFile {
  /** Its keys. Other processes can hold them, too, so the fast path in JavaScript takes none. */
  readonly table: LockTable;
  /** The fencing token of the thread that holds these stripes of the table. */
  token(stripes: readonly number[]): bigint;
  /** A text that identifies the key in all processes. Equal keys have the same text. */
  placeOf(key: LockKey): string;
  inspect(): readonly ProcessUse[] | FileFault;
  /** Closes the file for this thread. Keys that are held stay held. */
  close(): void;
}

/** Locks on keys of files, for all processes of the machine. */
export interface ProcessLockEngine {
  /**
   * `name`: the label of the lock in metrics and profiles. `title`: the text that other processes show for this one. `files`:
   * the number of files that share its locks. `limit`: the number of holders of a key. Both are 0 for the number that the
   * file's creator chose. `access`: a number of `file-access.ts`.
   */
  open(
    path: string,
    name: string,
    title: string,
    files: number,
    limit: number,
    access: number,
  ): ProcessFile | OpenFault;
}
