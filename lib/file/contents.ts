import { constants, type Stats } from 'node:fs';
import path from 'node:path';
import { codeOf, LockError } from '../common/errors.js';
import { performance } from '../common/host.js';
import { flushError, kindError, ownerError, readError, sizeError, writeError } from './errors.js';
import * as steps from './operations.js';
import type { Steps } from './operations.js';

/** The bytes of a file, and its `Stats`. A new version keeps the owner and the permissions in the `Stats`. */
export interface Contents {
  readonly bytes: Uint8Array;
  readonly stats: Stats;
}

/** The maximum number of symbolic links that are followed, as on Linux. */
const MOST_LINKS = 40;
/** Errors that can be temporary. On Windows, they occur while another program has the file open. */
const TRANSIENT: ReadonlySet<unknown> = new Set(['EPERM', 'EACCES', 'EBUSY']);
const UNFLUSHABLE: ReadonlySet<unknown> = new Set(['EINVAL', 'ENOTSUP', 'EACCES']);
/** The pauses between attempts, in milliseconds. They double from the first value to the longest. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 100;
/**
 * The permissions with which the new version of an existing file is created. Only the owner may read the new
 * version, because it may contain secrets. It gets the old version's permissions later.
 */
const PRIVATE = 0o600;
const PERMISSIONS = 0o7777;
/**
 * The flags that open a file for reading. `O_NONBLOCK`, which Windows does not have, keeps `open` from
 * waiting for a writer if the path leads to a pipe.
 */
const READ = constants.O_RDONLY | ((constants.O_NONBLOCK as number | undefined) ?? 0);

/**
 * The file that a path leads to through symbolic links, whether the file exists or not. A new version
 * replaces this file, so the links are kept.
 */
export function* targetOf(file: string): Steps<string> {
  let target = file;
  try {
    for (let links = 0; links < MOST_LINKS; links++) {
      target = path.join(yield* steps.realpath(path.dirname(target)), path.basename(target));
      const next = yield* linkAt(target);
      if (next === undefined) return target;
      target = path.resolve(path.dirname(target), next);
    }
  } catch (error) {
    throw readError(file, error);
  }
  throw readError(file, Object.assign(new Error('too many symbolic links'), { code: 'ELOOP' }));
}

function* linkAt(place: string): Steps<string | undefined> {
  try {
    return yield* steps.readlink(place);
  } catch (error) {
    // The path is not a link (EINVAL, or UNKNOWN on Windows), or nothing exists there (ENOENT).
    const code = codeOf(error);
    if (code === 'EINVAL' || code === 'UNKNOWN' || code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Throws if the path leads to a folder, a device or a pipe. Ignores all other faults, because
 * reading the file reports them.
 */
export function* checkKind(file: string): Steps<void> {
  let stats: Stats;
  try {
    stats = yield* steps.stat(file);
  } catch {
    return;
  }
  if (!stats.isFile()) throw kindError(file);
}

/** The contents of a file, or undefined if it does not exist. */
export function* read(file: string, maxBytes: number, timeout: number): Steps<Contents | undefined> {
  try {
    const descriptor = yield* untilPermitted(
      () => steps.open(file, READ),
      timeout,
      isTransientWithoutPermission,
    );
    try {
      const stats = yield* steps.fstat(descriptor);
      if (!stats.isFile()) throw kindError(file);
      if (stats.size > maxBytes) throw sizeError(file, stats.size, maxBytes);
      return { bytes: yield* steps.readFile(descriptor), stats };
    } finally {
      yield* steps.close(descriptor);
    }
  } catch (error) {
    if (error instanceof LockError) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    // Windows refuses to open a folder.
    throw codeOf(error) === 'EISDIR' ? kindError(file) : readError(file, error);
  }
}

/**
 * Writes the new version of `target` to a temporary file, and flushes it. Returns the path of the temporary
 * file. That file is in the same folder, because a rename cannot move a file to another disk. `before`: the
 * `Stats` of the current version, whose owner and permissions the new version gets.
 *
 * Call this under the lock. Then only one writer uses the temporary file. If the temporary file already
 * exists, a writer that died has left it.
 */
export function* writeBeside(
  target: string,
  bytes: Uint8Array,
  before: Stats | undefined,
  mode: number,
  timeout: number,
): Steps<string> {
  const temporary = `${target}.stripelock-new`;
  try {
    if (before !== undefined) yield* steps.access(target, constants.W_OK);
    yield* untilPermitted(() => remove(temporary), timeout, isTransientWithoutPermission);
    const make = (): Steps<number> => steps.open(temporary, 'wx', before === undefined ? mode : PRIVATE);
    const descriptor = yield* untilPermitted(make, timeout, isTransientWithoutPermission);
    try {
      yield* steps.writeFile(descriptor, bytes);
      if (before !== undefined) yield* keepOwnerAndMode(target, descriptor, before);
      yield* steps.fsync(descriptor);
    } finally {
      yield* steps.close(descriptor);
    }
  } catch (error) {
    yield* discard(temporary);
    throw error instanceof LockError ? error : writeError(target, error);
  }
  return temporary;
}

function* keepOwnerAndMode(target: string, descriptor: number, before: Stats): Steps<void> {
  const { uid, gid } = yield* steps.fstat(descriptor);
  if (uid !== before.uid || gid !== before.gid) {
    try {
      yield* steps.fchown(descriptor, before.uid, before.gid);
    } catch (error) {
      throw codeOf(error) === 'EPERM' ? ownerError(target, error) : error;
    }
  }
  // The permissions are set after the owner, because a change of owner clears the set-user-ID bit.
  yield* steps.fchmod(descriptor, before.mode & PERMISSIONS);
}

/**
 * Renames the temporary file to the target. `written`: the files that the same update has
 * already replaced, for the error.
 */
export function* replace(
  target: string,
  temporary: string,
  timeout: number,
  written: readonly string[],
): Steps<void> {
  try {
    yield* untilPermitted(() => steps.rename(temporary, target), timeout, isTransient);
  } catch (error) {
    throw writeError(target, error, written);
  }
}

/**
 * Flushes a folder, so that renames in it survive a power failure. On Windows,
 * the file system does that itself.
 */
export function* flushFolder(folder: string): Steps<void> {
  if (process.platform === 'win32') return;
  try {
    const descriptor = yield* steps.open(folder, constants.O_RDONLY);
    try {
      yield* steps.fsync(descriptor);
    } finally {
      yield* steps.close(descriptor);
    }
  } catch (error) {
    // Some file systems cannot flush folders, and some folders are not readable.
    if (!UNFLUSHABLE.has(codeOf(error))) throw flushError(folder, error);
  }
}

/** Removes a temporary file if possible. Otherwise the next writer removes it. */
export function* discard(temporary: string): Steps<void> {
  try {
    yield* steps.unlink(temporary);
  } catch {
    // The caller reports the error of the update instead.
  }
}

function* remove(file: string): Steps<void> {
  try {
    yield* steps.unlink(file);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

const isTransient = (error: unknown): boolean => TRANSIENT.has(codeOf(error));
/**
 * Like {@link isTransient}, but without EACCES. A process that lacks a permission must fail at
 * once and not retry. A rename may retry after EACCES: the process could create the temporary
 * file, so it has the permission.
 */
const isTransientWithoutPermission = (error: unknown): boolean =>
  isTransient(error) && codeOf(error) !== 'EACCES';

/**
 * Repeats an operation until it succeeds, the timeout expires, or `mayRepeat` returns false for its error.
 */
function* untilPermitted<R>(
  attempt: () => Steps<R>,
  timeout: number,
  mayRepeat: (error: unknown) => boolean,
): Steps<R> {
  const end = performance.now() + timeout;
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    try {
      return yield* attempt();
    } catch (error) {
      if (!mayRepeat(error) || performance.now() >= end) throw error;
    }
    yield* steps.pause(pause);
  }
}
