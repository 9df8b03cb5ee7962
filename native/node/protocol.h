// The numbers that the addon's calls and lib/engine/native/protocol.ts agree on. That file has the same ones; a test
// compares the two. No loop on either side relies on the other side's value. The numbers of modes are in core/mode.h
// and in lib/engine/contract/mode.ts.

#pragma once

#include <cstdint>

namespace stripelock {

// ── batches: takeGrants(), expire(), takeReleasedKeys() and takeWebLockNews() ──

// The most entries that one call hands over, however large the caller's array is.
inline constexpr std::int32_t kBatch = 128;
// Added to the number handed over if more may be left. The caller then calls again.
inline constexpr std::int32_t kMore = 1 << 30;
// Integers per grant, timeout or news: the waiter's id, and one detail about it.
inline constexpr std::int32_t kEntryInts = 2;
inline constexpr std::int32_t kEntryId = 0;
inline constexpr std::int32_t kEntryDetail = 1;

// ── answers ──

// From acquireSync() and acquireAsync(). No waiter's id is negative.
inline constexpr std::int32_t kGranted = -1;
inline constexpr std::int32_t kGrantedAbandoned = -2;
// From acquireSync(), the same after a wait that was counted.
inline constexpr std::int32_t kGrantedLate = -3;
inline constexpr std::int32_t kGrantedLateAbandoned = -4;
// From release(). Ready: takeGrants() has entries.
inline constexpr std::int32_t kNotHeld = 0;
inline constexpr std::int32_t kReleased = 1;
inline constexpr std::int32_t kReleasedAndReady = 2;
// From reuse().
inline constexpr std::int32_t kNoRoom = -1;
// From open(), leaseOpen() and gateOpen(). Numbers of open objects are at least 0.
inline constexpr std::int32_t kNotOpened = -1;

// The mode of tables with permits; see Call::toMode.
inline constexpr std::int32_t kPermitMode = 2;

// In an entry of takeGrants(), beside the flag for an abandoned stripe; and from drawn(): a number of core/Draw.
inline constexpr std::int32_t kDrawShift = 1;

// From pin(). No stripe is as high as these.
inline constexpr std::int32_t kPinnedAgain = 1 << 30;
inline constexpr std::int32_t kCrowded = 1 << 29;
inline constexpr std::int32_t kIdleEnded = 1 << 28;
// All bits below these.
inline constexpr std::int32_t kNoStripe = 0x0fff'ffff;

// ── leases ──

// From leaseRelease() and leaseKeep().
inline constexpr std::int32_t kLeaseNo = 0;
inline constexpr std::int32_t kLeaseDone = 1;
// Done, and takeReleasedKeys() has entries.
inline constexpr std::int32_t kLeaseDoneAndReady = 2;

// ── WebLockExchange: see web_locks.h for what each number means ──

inline constexpr std::int32_t kWebLockBytes = 32;
// In units of 64-bit floating-point numbers.
inline constexpr std::int32_t kWebLockManager = 0;
// In units of 32-bit integers.
inline constexpr std::int32_t kWebLockMode = 2;
inline constexpr std::int32_t kWebLockHow = 3;
inline constexpr std::int32_t kWebLockTicket = 4;
inline constexpr std::int32_t kWebLockAnswer = 5;
inline constexpr std::int32_t kWebLockReady = 6;

// Values of WebLockExchange::how.
inline constexpr std::int32_t kWebLockWait = 0;
inline constexpr std::int32_t kWebLockIfAvailable = 1;
inline constexpr std::int32_t kWebLockSteal = 2;

// Values of WebLockExchange::answer, from webLockRequest().
inline constexpr std::int32_t kWebLockHeld = 0;
inline constexpr std::int32_t kWebLockPending = 1;
inline constexpr std::int32_t kWebLockUnavailable = 2;
// From webLockCancel(): it was pending, or it was not.
inline constexpr std::int32_t kWebLockCancelled = 1;
inline constexpr std::int32_t kWebLockNotPending = 0;
// From webLockRelease(): whether the request existed and was not stolen.
inline constexpr std::int32_t kWebLockReleased = 1;
inline constexpr std::int32_t kWebLockNotKept = 0;

// Bits of the detail of news: it was pending and was granted; it was stolen, and has ended.
inline constexpr std::int32_t kNewsGranted = 1;
inline constexpr std::int32_t kNewsStolen = 2;

// ── ProcessExchange: see process_locks.h for what each number means ──

inline constexpr std::int32_t kProcessBytes = 32;
// In units of 64-bit integers.
inline constexpr std::int32_t kProcessToken = 0;
// In units of 32-bit integers.
inline constexpr std::int32_t kProcessId = 2;
inline constexpr std::int32_t kProcessAnswer = 3;
inline constexpr std::int32_t kProcessAbandoned = 4;
inline constexpr std::int32_t kProcessReady = 5;
inline constexpr std::int32_t kProcessFault = 6;
inline constexpr std::int32_t kProcessNumber = 7;

// Values of ProcessExchange::answer.
inline constexpr std::int32_t kProcessGranted = 0;
inline constexpr std::int32_t kProcessPending = 1;
inline constexpr std::int32_t kProcessTimedOut = 2;
inline constexpr std::int32_t kProcessDeadlock = 3;
inline constexpr std::int32_t kProcessInterrupted = 4;
inline constexpr std::int32_t kProcessFailed = 5;

}  // namespace stripelock
