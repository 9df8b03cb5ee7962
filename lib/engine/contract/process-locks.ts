import type { LockKey } from '../../common/types.js';
import type { HoldingProcess } from './contention.js';
import type { LockTable } from './engine.js';

/**
 * The reason why a lock file cannot be used. `fault`: a number of `file-fault.ts`. `number`: the system's
 * error number, or another number that `native/core/base/file_error.h` describes, or 0.
 */
export interface FileFault {
  readonly fault: number;
  readonly number: number;
}

/** The reason why a lock file could not be opened. */
export interface OpenFault extends FileFault {
  /**
   * Which file has the fault: 0 for the lock file itself, 1 for the file beside it that ends with `.1`, and
   * so on.
   */
  readonly part: number;
  /**
   * If `fault` is `UNSAFE`: the id of the user that owns the file. The field `mode` has the file's
   * permissions.
   */
  readonly owner: number;
  readonly mode: number;
}

/** A holder of a key, or a waiter for a key. */
export interface ProcessUse {
  /** The text that identifies the key: see {@link ProcessFile.placeOf}. */
  readonly place: string;
  /** Undefined if no process has published the key. */
  readonly key: LockKey | undefined;
  readonly shared: boolean;
  readonly waits: boolean;
  readonly pid: number;
  readonly threadId: number;
  /** When the hold or the wait started, in milliseconds since 1970. */
  readonly since: number;
  /** The title of another process; undefined for an entry of this process. */
  readonly title: string | undefined;
  /** The call site where a thread of this process acquired the key, if the acquisition was traced. */
  readonly acquiredAt: string | undefined;
}

/** A lock file that one thread has opened. */
export interface ProcessFile {
  /**
   * The table of the file's keys. Other processes can also hold these keys, so the fast path never takes
   * their stripes.
   */
  readonly table: LockTable;
  /** The fencing token for these stripes of the table. This thread must hold the stripes. */
  token(stripes: readonly number[]): bigint;
  /** Returns a text that identifies the key in all processes. Equal keys have the same text. */
  placeOf(key: LockKey): string;
  inspect(): readonly ProcessUse[] | FileFault;
  /** The other processes that hold the key. Empty if the file cannot be used. */
  holdersElsewhere(key: LockKey): readonly HoldingProcess[];
  /** Closes the file for this thread. Held keys stay held. */
  close(): void;
}

/** Opens lock files. All processes of the machine share the keys of a lock file. */
export interface ProcessLockEngine {
  /**
   * Opens a lock file.
   *
   * `name`: the lock's label in metrics and profiles. `title`: the text that other processes show for this
   * process. `files`: the number of files over which the kernel's locks are spread. `limit`: the maximum
   * number of simultaneous holders of a key. If `files` or `limit` is 0, the value that the file's creator
   * chose is used. `access`: one of the constants in `file-access.ts`.
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
