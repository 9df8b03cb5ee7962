// The numbers that the addon and lib/engine/native/protocol.ts agree on. That file has the same numbers; a test
// compares the two. Each side bounds its loops by its own numbers. The numbers of modes are in core/table/mode.h and in
// lib/engine/contract/mode.ts.

#pragma once

#include <cstdint>

namespace stripelock {

// ── batches: takeGrants(), expire(), takeReleasedKeys() and takeWebLockNews() ──

// The most entries that one call hands over, however large the caller's array is.
inline constexpr std::int32_t kBatch = 128;
// Added to the number of entries if more may be left. The caller then calls again.
inline constexpr std::int32_t kMore = 1 << 30;
// Integers per entry: the id of a waiter or a request, and one detail about it.
inline constexpr std::int32_t kEntryInts = 2;
inline constexpr std::int32_t kEntryId = 0;
inline constexpr std::int32_t kEntryDetail = 1;

// ── answers ──

// Results of acquireSync() and acquireAsync(). Ids of waiters are never negative.
inline constexpr std::int32_t kGranted = -1;
inline constexpr std::int32_t kGrantedAbandoned = -2;
// Results of acquireSync() if the acquisition had to wait.
inline constexpr std::int32_t kGrantedLate = -3;
inline constexpr std::int32_t kGrantedLateAbandoned = -4;
// Results of release(). kReleasedAndReady: takeGrants() has entries.
inline constexpr std::int32_t kNotHeld = 0;
inline constexpr std::int32_t kReleased = 1;
inline constexpr std::int32_t kReleasedAndReady = 2;
// Result of reuse() if no unused memory is large enough.
inline constexpr std::int32_t kNoRoom = -1;
// Result of open(), leaseOpen() and gateOpen() if nothing was opened. Numbers of open objects are at least 0.
inline constexpr std::int32_t kNotOpened = -1;

// The mode of tables with permits; see Call::toMode.
inline constexpr std::int32_t kPermitMode = 2;

// The detail of a grant contains a Draw (core/table/contention_profile.h), shifted left by this. The lowest bit is the
// flag for an abandoned stripe.
inline constexpr std::int32_t kDrawShift = 1;

// The detail of an acquisition that failed at the gate: this flag, a FileFault, and the system's error.
inline constexpr std::int32_t kEntryFailed = 1 << 29;
inline constexpr std::int32_t kFaultShift = 16;

// Flags in the result of pin(). The numbers of stripes are below these bits.
inline constexpr std::int32_t kPinnedAgain = 1 << 30;
inline constexpr std::int32_t kCrowded = 1 << 29;
inline constexpr std::int32_t kIdleEnded = 1 << 28;
// Result of pin() if no stripe is free: all bits below these flags.
inline constexpr std::int32_t kNoStripe = 0x0fff'ffff;

// ── leases ──

// Results of leaseEnd(), leaseKeep(), leaseTakeBack() and leaseLeave().
inline constexpr std::int32_t kLeaseNo = 0;
inline constexpr std::int32_t kLeaseDone = 1;
// Done, and takeReleasedKeys() has entries.
inline constexpr std::int32_t kLeaseDoneAndReady = 2;
// Only from leaseLeave(): the reader has left, and other readers still hold the key.
inline constexpr std::int32_t kLeaseLeft = 3;

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
// Answers of webLockCancel(): whether the request was pending.
inline constexpr std::int32_t kWebLockCancelled = 1;
inline constexpr std::int32_t kWebLockNotPending = 0;
// Answers of webLockRelease(): whether the request existed and was not stolen.
inline constexpr std::int32_t kWebLockReleased = 1;
inline constexpr std::int32_t kWebLockNotKept = 0;

// Bits in the detail of an entry of takeWebLockNews(): the pending request was granted; the request was stolen and
// has ended.
inline constexpr std::int32_t kNewsGranted = 1;
inline constexpr std::int32_t kNewsStolen = 2;

}  // namespace stripelock
