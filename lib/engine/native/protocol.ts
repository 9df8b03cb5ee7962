/**
 * The special numbers in arguments and results of the addon's functions. `native/node/protocol.h` has the
 * same numbers; a test compares the two files. The loops of each side use only the numbers of that side. The
 * numbers of modes are in `contract/mode.ts` (see `Mode.code`).
 */

/** The maximum number of entries that one call writes to the caller's array, even if the array is larger. */
export const BATCH = 128;
/**
 * A flag in the returned number of entries, set if there may be more entries. The caller then repeats the
 * call.
 */
export const MORE = 0x4000_0000;
/**
 * The number of integers in each entry of a batch. An entry reports a grant, a timeout or another event. It
 * consists of the id of a waiter or request, and a detail.
 */
export const ENTRY_INTS = 2;
export const ENTRY_ID = 0;
export const ENTRY_DETAIL = 1;

/**
 * Results of `acquireSync` and `acquireAsync`. These numbers are negative, but the id of a waiter is at least
 * 0.
 */
export const GRANTED = -1;
export const GRANTED_ABANDONED = -2;
/** Results of `acquireSync` for a grant after a wait. */
export const GRANTED_LATE = -3;
export const GRANTED_LATE_ABANDONED = -4;
/** Results of `release`. RELEASED_AND_READY means that `takeGrants` has grants to return. */
export const NOT_HELD = 0;
export const RELEASED = 1;
export const RELEASED_AND_READY = 2;
/** The result of `reuse` if no unused memory is large enough. */
export const NO_ROOM = -1;
/**
 * The result of `open`, `leaseOpen` and `gateOpen` on failure. The number of an open table or gate is at
 * least 0.
 */
export const NOT_OPENED = -1;

/** The code of the only mode in tables with permits. */
export { PERMIT_CODE as PERMIT_MODE } from '../contract/mode.js';

/**
 * The detail of a grant contains the result of a draw (see `contract/contention.ts`), shifted left by this
 * many bits. The lowest bit is set if an earlier holder's thread ended without releasing.
 */
export const DRAW_SHIFT = 1;
/**
 * A flag in the detail of an acquisition that failed. The detail also contains a `FileFault`, shifted left by
 * {@link FAULT_SHIFT} bits, and the system's error number in the bits below.
 */
export const ENTRY_FAILED = 0x2000_0000;
export const FAULT_SHIFT = 16;

/** Flags and numbers in the result of `pin`. */
export { CROWDED, IDLE_ENDED, NO_STRIPE, PINNED_AGAIN } from '../contract/exact-keys.js';

/** Results of `leaseEnd`, `leaseKeep`, `leaseTakeBack` and `leaseLeave`. */
export const LEASE_NO = 0;
export const LEASE_DONE = 1;
/** The lease has ended, and this thread watches the key: `takeReleasedKeys` has watches to return. */
export const LEASE_DONE_AND_READY = 2;
/** Only from `leaseLeave`: the reader has left, and other readers still hold the key. */
export const LEASE_LEFT = 3;

/**
 * The size, in bytes, of the buffer for the arguments and results of web lock calls. `WebLockExchange` in
 * `native/node/web_locks.h` describes the numbers in the buffer.
 */
export const WEB_LOCK_BYTES = 32;
/** The manager's index in this buffer, in 64-bit floating-point numbers. */
export const WEB_LOCK_MANAGER = 0;
/** The indexes of the other values in this buffer, in 32-bit integers. */
export const WEB_LOCK_MODE = 2;
export const WEB_LOCK_HOW = 3;
export const WEB_LOCK_TICKET = 4;
export const WEB_LOCK_ANSWER = 5;
export const WEB_LOCK_READY = 6;

/** Ways to request a web lock. */
export const WEB_LOCK_WAIT = 0;
export const WEB_LOCK_IF_AVAILABLE = 1;
export const WEB_LOCK_STEAL = 2;

/** Results of `webLockRequest`. */
export const WEB_LOCK_HELD = 0;
export const WEB_LOCK_PENDING = 1;
export const WEB_LOCK_UNAVAILABLE = 2;
/** Results of `webLockCancel`: whether the request was pending. */
export const WEB_LOCK_CANCELLED = 1;
export const WEB_LOCK_NOT_PENDING = 0;
/** Results of `webLockRelease`: whether the request has ended now, or had already been stolen. */
export const WEB_LOCK_RELEASED = 1;
export const WEB_LOCK_NOT_KEPT = 0;

/**
 * Flags in the detail of a notification about a web lock. GRANTED: a pending request was granted. STOLEN: the
 * lock was stolen, and the request has ended.
 */
export const NEWS_GRANTED = 1;
export const NEWS_STOLEN = 2;
