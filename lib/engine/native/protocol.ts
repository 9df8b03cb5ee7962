/**
 * The numbers that this folder and the addon's calls agree on. `native/node/protocol.h` has the same ones; a test
 * compares the two. No loop on either side relies on the other side's value. Modes are numbers, too: see `Mode.code` in
 * `contract/mode.ts`.
 */

/** The most entries that one call hands over, even if the caller's array is larger. */
export const BATCH = 128;
/** Added to the number of entries if more may be left. The caller then calls again. */
export const MORE = 0x4000_0000;
/** Integers for each grant, timeout or news in a batch: the waiter's id, and a detail about it. */
export const ENTRY_INTS = 2;
export const ENTRY_ID = 0;
export const ENTRY_DETAIL = 1;

/** Answers of `acquireSync` and `acquireAsync`. No waiter's id is negative. */
export const GRANTED = -1;
export const GRANTED_ABANDONED = -2;
/** Answers of `acquireSync`, the same after a wait that was counted. */
export const GRANTED_LATE = -3;
export const GRANTED_LATE_ABANDONED = -4;
/** Answers of `release`. Ready: `takeGrants` has something. */
export const NOT_HELD = 0;
export const RELEASED = 1;
export const RELEASED_AND_READY = 2;
/** Answer of `reuse`. */
export const NO_ROOM = -1;
/** Answer of `open`, `leaseOpen` and `gateOpen`. Every number of what is open is at least 0. */
export const NOT_OPENED = -1;

/** The mode of tables with permits. */
export { PERMIT_CODE as PERMIT_MODE } from '../contract/mode.js';

/** Answers of `pin`. */
/** See `protocol.h`. */
export const DRAW_SHIFT = 1;

export { CROWDED, IDLE_ENDED, NO_STRIPE, PINNED_AGAIN } from '../contract/exact-keys.js';

/** Answers of `leaseRelease` and `leaseKeep`. */
export const LEASE_NO = 0;
export const LEASE_DONE = 1;
/** Done, and `takeReleasedKeys` has something. */
export const LEASE_DONE_AND_READY = 2;

/** The size of the exchange for web locks. `native/node/web_locks.h` says what each of its numbers means. */
export const WEB_LOCK_BYTES = 32;
/** Places in units of 64-bit floating-point numbers. */
export const WEB_LOCK_MANAGER = 0;
/** Places in units of 32-bit integers. */
export const WEB_LOCK_MODE = 2;
export const WEB_LOCK_HOW = 3;
export const WEB_LOCK_TICKET = 4;
export const WEB_LOCK_ANSWER = 5;
export const WEB_LOCK_READY = 6;

/** How to get a web lock. */
export const WEB_LOCK_WAIT = 0;
export const WEB_LOCK_IF_AVAILABLE = 1;
export const WEB_LOCK_STEAL = 2;

/** Answers of `webLockRequest`. */
export const WEB_LOCK_HELD = 0;
export const WEB_LOCK_PENDING = 1;
export const WEB_LOCK_UNAVAILABLE = 2;
/** Answers of `webLockCancel`: it was pending, or it was not. */
export const WEB_LOCK_CANCELLED = 1;
export const WEB_LOCK_NOT_PENDING = 0;
/** Answers of `webLockRelease`: it has ended, or it was stolen before. */
export const WEB_LOCK_RELEASED = 1;
export const WEB_LOCK_NOT_KEPT = 0;

/** The size of the exchange for locks of files. `native/node/process_locks.h` says what each of its numbers means. */
export const PROCESS_BYTES = 32;
/** Places in units of 64-bit integers. */
export const PROCESS_TOKEN = 0;
/** Places in units of 32-bit integers. */
export const PROCESS_ID = 2;
export const PROCESS_ANSWER = 3;
export const PROCESS_ABANDONED = 4;
export const PROCESS_READY = 5;
export const PROCESS_FAULT = 6;
export const PROCESS_NUMBER = 7;

/** Answers of acquisitions of keys of files. */
export const PROCESS_GRANTED = 0;
export const PROCESS_PENDING = 1;
export const PROCESS_TIMED_OUT = 2;
export const PROCESS_DEADLOCK = 3;
export const PROCESS_INTERRUPTED = 4;
export const PROCESS_FAILED = 5;

/** Bits of the detail of news: it was pending and was granted; it was stolen, and has ended. */
export const NEWS_GRANTED = 1;
export const NEWS_STOLEN = 2;
