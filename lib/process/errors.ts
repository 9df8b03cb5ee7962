import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import {
  DeadlockError,
  keyName,
  LockError,
  lockName,
  LockTimeoutError,
  quotedKeys,
} from '../common/errors.js';
import type { LockKey } from '../common/types.js';
import type { FileFault, ProcessDeadlock, ProcessUse } from '../engine/contract/process-locks.js';

/** As `FileFault` of `native/core/lock_file.h`. */
const KIND = 2;
const FILE_SYSTEM = 3;
const FOREIGN = 4;
const VERSION = 5;
const BUSY = 6;
const REPLACED = 7;
const LOCK = 8;
const SYSTEM = 9;
const FILES = 10;
const DAMAGED = 11;
const PARTS = 12;

/** A lock as messages name it. */
interface ShownLock {
  readonly name: string;
  readonly path: string;
}

function shownLock({ name, path }: ShownLock): string {
  return name === ''
    ? `lock file ${JSON.stringify(path)}`
    : `${lockName(name)}, file ${JSON.stringify(path)}`;
}

/** What went wrong with the file of a lock. */
export function fileError(file: string, { fault, number }: FileFault): LockError {
  const [code, why] = reasonOf(fault, number);
  const cause = number === 0 || fault === FILES ? undefined : systemError(number, file);
  return new LockError(code, `lock file ${JSON.stringify(file)}: ${why}`, { cause });
}

function reasonOf(fault: number, number: number): [code: string, why: string] {
  switch (fault) {
    case KIND:
      return [
        'ERR_LOCK_FILE_KIND',
        'it is a folder, or something else that is not an ordinary file, or a symbolic link leads to it',
      ];
    case FILE_SYSTEM:
      return [
        'ERR_LOCK_FILE_SYSTEM',
        'its file system is on another machine, or does not keep locks of open files: put it on a local disk, or use a lease',
      ];
    case FOREIGN:
      return ['ERR_LOCK_FILE_FOREIGN', 'it is not a lock file, or was damaged: nothing else may be in it'];
    case VERSION:
      return ['ERR_LOCK_FILE_VERSION', 'another version of stripelock made it, with another layout'];
    case BUSY:
      return ['ERR_LOCK_FILE_BUSY', 'another process is making it, and has stopped before it was done'];
    case REPLACED:
      return [
        'ERR_LOCK_FILE_REPLACED',
        'it was deleted or replaced while it was open, so other processes may lock another file: make a new lock',
      ];
    case LOCK:
      return [
        'ERR_LOCK_FILE_LOCK',
        'the system refused to lock a byte of it, or to start a thread that waits for it',
      ];
    case SYSTEM:
      return ['ERR_LOCK_ENGINE', 'this operating system has no locks of open files'];
    case FILES:
      return [
        'ERR_LOCK_FILE_COUNT',
        `whoever made it spreads its keys over another number of files: ${number}`,
      ];
    case DAMAGED:
      return [
        'ERR_LOCK_FILE_DAMAGED',
        'its header is missing or damaged, and other processes have it open: end them all, and the next one repairs it',
      ];
    case PARTS:
      return [
        'ERR_LOCK_FILE_PARTS',
        'the files beside it (.1, .2 and so on) are missing or were replaced, or this is a second name of it: other processes have others open, so end these, or open it by its first name',
      ];
    default:
      return ['ERR_LOCK_FILE_OPEN', `it could not be opened: ${openReason(number)}`];
  }
}

/** On Windows the numbers are of that system, and the cause has them. */
function openReason(number: number): string {
  const { errno } = constants;
  switch (process.platform === 'win32' ? -1 : number) {
    case errno.ENOENT:
    case errno.ENOTDIR:
      return 'its folder does not exist';
    case errno.EACCES:
    case errno.EPERM:
      return 'this user may not read and write it, or make it in its folder';
    case errno.EROFS:
      return 'it is on a file system that is read-only';
    case errno.EMFILE:
    case errno.ENFILE:
      return 'too many files are open';
    case errno.ENOSPC:
      return 'no room is left on the disk';
    default:
      return 'the system refused it';
  }
}

/** Like the errors of `node:fs`. */
function systemError(number: number, file: string): Error {
  const code = process.platform === 'win32' ? `WIN32_${number}` : getSystemErrorName(-number);
  return Object.assign(new Error(`${code}, ${file}`), { code, errno: -number, path: file });
}

/** `uses`: who holds or waits, as far as known. */
export function timeoutError(
  lock: ShownLock,
  keys: readonly LockKey[],
  timeout: number,
  holders: readonly ProcessUse[],
): LockTimeoutError {
  const held = holders.length === 0 ? '' : ` (held by ${holders.map(holderName).join(', ')})`;
  const message = `${shownLock(lock)}: could not acquire ${quotedKeys(keys)} within ${timeout} ms${held}`;
  const own = holders.filter(({ title }) => title === undefined).map(({ threadId }) => threadId);
  return new LockTimeoutError(message, keys, timeout, -1, own);
}

function holderName({ pid, threadId, title, since }: ProcessUse): string {
  const who =
    title === undefined
      ? `thread ${threadId} of this process`
      : `process ${pid}${title === '' ? '' : `, ${title}`}`;
  return `${who}, for ${((Date.now() - since) / 1000).toFixed(1)} s`;
}

export function deadlockError(
  lock: ShownLock,
  keys: readonly LockKey[],
  { threads, awaited }: ProcessDeadlock,
): DeadlockError {
  const why = threads.length === 1 ? selfText(threads[0]!, awaited[0]!) : cycleText(threads, awaited);
  const message =
    `${shownLock(lock)}: waiting for ${quotedKeys(keys)} would never end: ${why}. ` +
    'Acquire all keys that are needed together in one call';
  return new DeadlockError(
    message,
    keys,
    threads,
    threads.map(() => -1),
  );
}

function selfText(thread: number, key: LockKey): string {
  return (
    `this same thread (${thread}) holds key ${keyName(key)}, by a guard that is not released, and cannot release it ` +
    'while it is blocked. Locks are not reentrant: pass the guard on instead of acquiring the key again'
  );
}

function cycleText(threads: readonly number[], awaited: readonly LockKey[]): string {
  const next = (i: number): number => threads[(i + 1) % threads.length]!;
  return threads
    .map((thread, i) => `thread ${thread} waits for key ${keyName(awaited[i]!)}, which thread ${next(i)} has`)
    .join(', ');
}

export function interruptedError(lock: ShownLock): LockError {
  return new LockError('ERR_LOCK_INTERRUPTED', `${shownLock(lock)}: this thread is being ended`);
}

export function closedError(lock: ShownLock): LockError {
  return new LockError('ERR_LOCK_CLOSED', `${shownLock(lock)} was closed`);
}
