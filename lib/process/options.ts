import path from 'node:path';
import {
  checkCount,
  checkPart,
  checkPath,
  checkString,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../common/checks.js';
import type { AcquireOptions, AsyncAcquireOptions } from '../common/types.js';

/** For a new `ProcessLock`. */
export interface ProcessLockOptions {
  /**
   * The file that all processes lock, on a local disk. If it is missing, it is created with the permissions 0600; its folder
   * must exist. It is never deleted, and must have no other contents.
   */
  path: string;
  /** Shown in errors. Default ''. */
  name?: string;
  /** Default time allowed for one whole acquisition, however many keys, in milliseconds. Default 5000. Infinity waits forever. */
  timeout?: number;
  /**
   * The number of files that share the keys, 1 to 64: `path`, and files beside it whose names end with `.1`, `.2` and so on. The
   * kernel searches all locks of a file each time, so hold thousands of keys at once only with 16 files or more. The process that
   * creates the file sets the number for all processes, by default 1. Another number is refused later (`ERR_LOCK_FILE_COUNT`).
   */
  files?: number;
}

/** As `kMostSpread` of `native/core/process_page.h`. */
const MOST_FILES = 64;

const NAMES: Names<ProcessLockOptions> = { path: true, name: true, timeout: true, files: true };

/** The options that have a meaning for `acquire`, for `acquireSync`, and for `tryAcquire`. */
export const ASYNC_ACQUISITION: Names<AsyncAcquireOptions> = { timeout: true, mode: true, signal: true };
export const SYNC_ACQUISITION: Names<AcquireOptions> = { timeout: true, mode: true };
export const ATTEMPT: Names<Pick<AcquireOptions, 'mode'>> = { mode: true };

/** Throws a TypeError or RangeError for bad options. No number of files is 0. The path becomes absolute: the process may change its folder later. */
export function resolveProcessLockOptions(options: ProcessLockOptions): Required<ProcessLockOptions> {
  checkPart(options, NAMES, 'options', 'an object with a path');
  const { path: file, name, timeout, files } = options;
  const given = checkPath(checkString(file, 'options.path'), 'options.path', 'the path of a file');
  return {
    path: path.resolve(given),
    name: name === undefined ? '' : checkString(name, 'options.name'),
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    files: files === undefined ? 0 : checkCount(files, 'options.files', MOST_FILES),
  };
}
