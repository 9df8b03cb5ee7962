import path from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  checkBoolean,
  checkCount,
  checkPart,
  checkPath,
  checkString,
  checkTimeout,
  DEFAULT_TIMEOUT,
  type Names,
} from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type { HostUrl } from '../common/types.js';
import * as fileAccess from '../engine/contract/file-access.js';

/** Options of `new ProcessLock(options)`. */
export interface ProcessLockOptions {
  /**
   * The lock file, as a path or a `file:` URL. It must be on a local disk. All processes that share the lock
   * pass the same file. If the file is missing, it is created; its folder must exist. It is never deleted,
   * and must have no other contents.
   */
  path: string | HostUrl;
  /**
   * The name that errors, metrics, profiles and diagnostics messages show. Metrics, profiles and diagnostics
   * messages show the path instead of an empty name. Default ''.
   */
  name?: string;
  /**
   * The default timeout of an acquisition, for all of its keys together, in milliseconds.
   * Default 5000. Infinity waits forever.
   */
  timeout?: number;
  /**
   * The number of files that share the keys, 1 to 64: `path`, and files beside it whose names end with `.1`,
   * `.2` and so on. At each operation, the kernel searches all locks of a file. So use 16 files or more to
   * hold thousands of keys at once. The process that creates the file sets the number for all processes, by
   * default 1. After that, another number is refused (`ERR_LOCK_FILE_COUNT`).
   */
  files?: number;
  /**
   * The users whose processes share the lock: this user, the file's group, or all users. A new file gets the
   * permissions 0600, 0660 or 0666. A file is refused (`ERR_LOCK_FILE_UNSAFE`) if users other than the chosen
   * ones may write it. With `'user'`, a file is also refused if another user owns it. Such users could hold
   * keys forever, and end processes that use the lock. No effect on Windows. Default 'user'.
   */
  access?: 'user' | 'group' | 'all';
  /**
   * The maximum number of acquisitions that may hold a key at once, in all processes together, 1 to
   * 256. With a limit above 1, the lock has permits and no shared mode. The process that creates the
   * file sets the limit for all of its keys. After that, another limit is refused
   * (`ERR_LOCK_FILE_LIMIT`). Default 1, an exclusive lock.
   */
  limit?: number;
  /** Records where each guard was acquired, for `inspect()` and errors. Slow. Default false. */
  trace?: boolean;
}

/** The users that share a lock file. */
export type FileAccess = NonNullable<ProcessLockOptions['access']>;

const ACCESSES: Readonly<Record<FileAccess, number>> = {
  user: fileAccess.USER,
  group: fileAccess.GROUP,
  all: fileAccess.ALL,
};

/** The same as `kMostSpread` in `native/core/files/lock_file_header.h`. */
const MOST_FILES = 64;
/** The same as `kMostPermits` in `native/core/files/lock_file_header.h`. */
export const MOST_PERMITS = 256;

const NAMES: Names<ProcessLockOptions> = {
  path: true,
  name: true,
  timeout: true,
  files: true,
  access: true,
  limit: true,
  trace: true,
};

/** The checked options, with defaults filled in. */
export interface ProcessLockSettings {
  /** An absolute path, because the process may change its working directory later. */
  readonly path: string;
  readonly name: string;
  readonly timeout: number;
  /** 0 if the option was not passed; a file with any number is then accepted. */
  readonly files: number;
  readonly limit: number;
  /** One of the numbers in `file-access.ts`. */
  readonly access: number;
  readonly trace: boolean;
}

/** Throws a TypeError or RangeError for bad options. */
export function resolveProcessLockOptions(options: ProcessLockOptions): ProcessLockSettings {
  checkPart(options, NAMES, 'options', 'an object with a path');
  const { path: file, name, timeout, files, limit, access, trace } = options;
  return {
    path: resolvePath(file, 'options.path'),
    name: name === undefined ? '' : checkString(name, 'options.name'),
    timeout: timeout === undefined ? DEFAULT_TIMEOUT : checkTimeout(timeout, 'options.timeout'),
    files: files === undefined ? 0 : checkCount(files, 'options.files', MOST_FILES),
    limit: limit === undefined ? 1 : checkCount(limit, 'options.limit', MOST_PERMITS),
    access: access === undefined ? fileAccess.USER : checkAccess(access, 'options.access'),
    trace: trace === undefined ? false : checkBoolean(trace, 'options.trace'),
  };
}

export const isFileAccess = (given: unknown): given is FileAccess =>
  typeof given === 'string' && Object.hasOwn(ACCESSES, given);

export function checkAccess(access: unknown, name: string): number {
  if (isFileAccess(access)) return ACCESSES[access];
  throw invalidArgType(name, "'user', 'group' or 'all'", access);
}

/**
 * Converts a path or a `file:` URL to an absolute path. Throws a TypeError for any other
 * value. `name`: the argument's name.
 */
export function resolvePath(given: unknown, name: string): string {
  // If the text of a URL were used as a path, it would lead to a folder named "file:".
  if (typeof given === 'string' && /^file:\/\//i.test(given))
    throw invalidArgType(name, 'a path or a URL object, and not the text of a URL', given);
  const { href } = (given ?? {}) as Partial<Record<'href', unknown>>;
  const isUrl = typeof given === 'object' && typeof href === 'string' && /^file:/i.test(href);
  return path.resolve(
    checkPath(isUrl ? fileURLToPath(href) : given, name, 'the path of a file, or a file URL'),
  );
}
