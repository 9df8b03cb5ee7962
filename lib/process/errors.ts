import { getSystemErrorName } from 'node:util';
import {
  DeadlockError,
  keyName,
  LockError,
  lockName,
  LockTimeoutError,
  quotedKeys,
  selfText,
} from '../common/errors.js';
import { fileReason } from '../common/file-reasons.js';
import type { LockKey } from '../common/types.js';
import * as fault from '../engine/contract/file-fault.js';
import type { Failure } from '../engine/contract/engine.js';
import type { FileFault, OpenFault, ProcessUse } from '../engine/contract/process-locks.js';

/** The properties of a lock that messages mention. */
interface ShownLock {
  readonly name: string;
  readonly path: string;
}

function shownLock({ name, path }: ShownLock): string {
  return name === ''
    ? `lock file ${JSON.stringify(path)}`
    : `${lockName(name)}, file ${JSON.stringify(path)}`;
}

/** The error code and the explanation for each fault. */
const REASONS: Readonly<Record<number, readonly [code: string, why: string]>> = {
  [fault.KIND]: [
    'ERR_LOCK_FILE_KIND',
    'it is a folder, or something else that is not an ordinary file, or a symbolic link leads to it',
  ],
  [fault.FILE_SYSTEM]: [
    'ERR_LOCK_FILE_SYSTEM',
    'its file system is on another machine, or does not keep locks of open files: put it on a local disk, or use a lease',
  ],
  [fault.FOREIGN]: [
    'ERR_LOCK_FILE_FOREIGN',
    'it is not a lock file, or was damaged: nothing else may be in it',
  ],
  [fault.VERSION]: ['ERR_LOCK_FILE_VERSION', 'another version of stripelock created it, with another layout'],
  [fault.BUSY]: [
    'ERR_LOCK_FILE_BUSY',
    'another process started to create it, and was stopped before it finished',
  ],
  [fault.REPLACED]: [
    'ERR_LOCK_FILE_REPLACED',
    'it was deleted or replaced while it was open, so other processes may lock another file: make a new lock',
  ],
  [fault.LOCK]: [
    'ERR_LOCK_FILE_LOCK',
    'the system refused to lock a byte of it, or to start a thread that waits for it',
  ],
  [fault.SYSTEM]: ['ERR_LOCK_ENGINE', 'this operating system has no locks of open files'],
  [fault.DAMAGED]: [
    'ERR_LOCK_FILE_DAMAGED',
    'its header is missing or damaged, and other processes have it open: end them all, and the next one repairs it',
  ],
  [fault.PARTS]: [
    'ERR_LOCK_FILE_PARTS',
    'the files beside it (.1, .2 and so on) are missing or were replaced, or this is a second name of it: other processes have others open, so end these, or open it by its first name',
  ],
};

/** The error for a lock file that could not be opened: the file itself, or one of the files beside it. */
export function openError(file: string, found: OpenFault): LockError {
  const at = found.part === 0 ? file : `${file}.${found.part}`;
  return found.fault === fault.UNSAFE ? unsafeError(at, found) : fileError(at, found);
}

const WRITABLE_BY_ALL = 0o002;

function unsafeError(file: string, { owner, mode }: OpenFault): LockError {
  const user = process.geteuid?.();
  const whose = owner === user ? 'its permissions let other users write it' : 'another user owns it';
  const access = (mode & WRITABLE_BY_ALL) === 0 ? 'group' : 'all';
  return new LockError(
    'ERR_LOCK_FILE_UNSAFE',
    `lock file ${JSON.stringify(file)}: ${whose} (owner ${owner}, mode 0${mode.toString(8)}; this process runs as user ${user}). ` +
      'Such a user could hold its keys for ever, or end this process. Delete the file, or choose a path in a folder of this user. ' +
      `To share the lock with other users, use a ProcessLock with the option \`access: '${access}'\``,
  );
}
/** The faults that concern an option whose value the file's creator sets for all processes. */
const SHAPES: Readonly<Record<number, { code: string; option: string }>> = {
  [fault.FILES]: { code: 'ERR_LOCK_FILE_COUNT', option: 'files' },
  [fault.LIMIT]: { code: 'ERR_LOCK_FILE_LIMIT', option: 'limit' },
};

/** The error for a lock file that cannot be used. */
export function fileError(file: string, { fault: found, number }: FileFault): LockError {
  const shape = SHAPES[found];
  const cause = number === 0 || shape !== undefined ? undefined : systemError(number, file);
  const [code, why] =
    shape !== undefined
      ? [shape.code, `it was created with \`${shape.option}: ${number}\`: open it with the same number`]
      : (REASONS[found] ?? [
          'ERR_LOCK_FILE_OPEN',
          `it could not be opened: ${fileReason(cause ?? 'the system refused it')}`,
        ]);
  return new LockError(code, `lock file ${JSON.stringify(file)}: ${why}`, { cause });
}

/**
 * An error like those of `node:fs`. On Windows, its code contains the system's
 * error number instead of a name.
 */
function systemError(number: number, file: string): Error {
  const code = process.platform === 'win32' ? `WIN32_${number}` : getSystemErrorName(-number);
  return Object.assign(new Error(`${code}, ${file}`), { code, errno: -number, path: file });
}

/** The error for a failed acquisition. `holdersOf`: returns the known holders of keys. */
export function failureOf(
  lock: ShownLock,
  outcome: Failure,
  keys: readonly LockKey[],
  timeout: number,
  holdersOf: (keys: readonly LockKey[]) => readonly ProcessUse[],
): LockError {
  switch (outcome.status) {
    case 'failed':
      return fileError(lock.path, outcome);
    case 'interrupted':
      return new LockError('ERR_LOCK_INTERRUPTED', `${shownLock(lock)}: this thread is being ended`);
    case 'timeout':
      return timeoutError(lock, keys, timeout, holdersOf(keys));
    case 'deadlock': {
      const { threads, keys: awaited = [] } = outcome;
      const [thread] = threads as [number];
      const [own] = awaited;
      const holders = threads.length > 1 || own === undefined ? [] : holdersOf([own]);
      const traced = holders.find(
        ({ threadId, acquiredAt }) => threadId === thread && acquiredAt !== undefined,
      );
      const why =
        threads.length > 1
          ? cycleText(threads, awaited)
          : selfText(shownKey(own), thread, traced && `acquired ${traced.acquiredAt}`);
      const message =
        `${shownLock(lock)}: waiting for ${quotedKeys(keys)} would never end: ${why}. ` +
        'Acquire all keys that are needed together in one call';
      // A stripe's number has no meaning in other processes.
      const stripes = threads.map(() => -1);
      return new DeadlockError(message, keys, threads, stripes);
    }
  }
}

function timeoutError(
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

function holderName({ pid, threadId, title, since, acquiredAt }: ProcessUse): string {
  const holder =
    title === undefined
      ? `thread ${threadId} of this process`
      : `process ${pid}${title === '' ? '' : `, ${title}`}`;
  const place = acquiredAt === undefined ? '' : `, acquired ${acquiredAt}`;
  return `${holder}, for ${((Date.now() - since) / 1000).toFixed(1)} s${place}`;
}

function shownKey(key: LockKey | undefined): string {
  return key === undefined ? 'a key of another lock' : `key ${keyName(key)}`;
}

function cycleText(threads: readonly number[], awaited: readonly (LockKey | undefined)[]): string {
  const next = (i: number): number => threads[(i + 1) % threads.length]!;
  return threads
    .map((thread, i) => `thread ${thread} waits for ${shownKey(awaited[i])}, which thread ${next(i)} has`)
    .join(', ');
}

export function closedError(lock: ShownLock): LockError {
  return new LockError('ERR_LOCK_CLOSED', `${shownLock(lock)} was closed`);
}
