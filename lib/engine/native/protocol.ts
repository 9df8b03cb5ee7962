/**
 * The numbers that this folder and the addon's calls agree on. `native/node/protocol.h` has the same ones; a test
 * compares the two. No loop on either side relies on the other side's value. Modes are numbers, too: see `Mode.code` in
 * `contract/mode.ts`.
 */

/** The most entries that one call returns, even if the caller's array is larger. */
export const BATCH = 128;
/** Added to the number of entries if more may be left. The caller then calls again. */
export const MORE = 0x4000_0000;
/** The number of integers for each grant, timeout or notification in a batch: the waiter's id, and a detail. */
export const ENTRY_INTS = 2;
export const ENTRY_ID = 0;
export const ENTRY_DETAIL = 1;

/** Answers of `acquireSync` and `acquireAsync`. No waiter's id is negative. */
export const GRANTED = -1;
export const GRANTED_ABANDONED = -2;
/** Answers of `acquireSync`: granted after a wait that was counted. */
export const GRANTED_LATE = -3;
export const GRANTED_LATE_ABANDONED = -4;
/** Answers of `release`. Ready: `takeGrants` has grants to return. */
export const NOT_HELD = 0;
export const RELEASED = 1;
export const RELEASED_AND_READY = 2;
/** Answer of `reuse`. */
export const NO_ROOM = -1;
/** Answer of `open`, `leaseOpen` and `gateOpen` on failure. The numbers of open tables and gates are at least 0. */
export const NOT_OPENED = -1;

/** The mode of tables with permits. */
export { PERMIT_CODE as PERMIT_MODE } from '../contract/mode.js';

/** The shift of the draw in a grant's detail. The bit below: an earlier holder's thread ended. */
export const DRAW_SHIFT = 1;
/**
 * A bit in the detail of an acquisition that failed. The other bits are a `FileFault`, from {@link FAULT_SHIFT} up, and the
 * system's error.
 */
export const ENTRY_FAILED = 0x2000_0000;
export const FAULT_SHIFT = 16;

/** Answers of `pin`. */
export { CROWDED, IDLE_ENDED, NO_STRIPE, PINNED_AGAIN } from '../contract/exact-keys.js';

/** Answers of `leaseEnd`. */
export const LEASE_NO = 0;
export const LEASE_DONE = 1;
/** Done, and `takeReleasedKeys` has keys to return. */
export const LEASE_DONE_AND_READY = 2;

/** The size of the buffer for arguments and results of web locks. `native/node/web_locks.h` describes its numbers. */
export const WEB_LOCK_BYTES = 32;
/** An index in 64-bit floating-point numbers. */
export const WEB_LOCK_MANAGER = 0;
/** Indexes in 32-bit integers. */
export const WEB_LOCK_MODE = 2;
export const WEB_LOCK_HOW = 3;
export const WEB_LOCK_TICKET = 4;
export const WEB_LOCK_ANSWER = 5;
export const WEB_LOCK_READY = 6;

/** How a web lock is requested. */
export const WEB_LOCK_WAIT = 0;
export const WEB_LOCK_IF_AVAILABLE = 1;
export const WEB_LOCK_STEAL = 2;

/** Answers of `webLockRequest`. */
export const WEB_LOCK_HELD = 0;
export const WEB_LOCK_PENDING = 1;
export const WEB_LOCK_UNAVAILABLE = 2;
/** Answers of `webLockCancel`: whether the request was pending. */
export const WEB_LOCK_CANCELLED = 1;
export const WEB_LOCK_NOT_PENDING = 0;
/** Answers of `webLockRelease`: the request has ended, or it had been stolen before. */
export const WEB_LOCK_RELEASED = 1;
export const WEB_LOCK_NOT_KEPT = 0;

/** Bits in the detail of a notification: the pending request was granted; the request was stolen and has ended. */
export const NEWS_GRANTED = 1;
export const NEWS_STOLEN = 2;
