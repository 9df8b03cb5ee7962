// Takes back stripes from async waiters whose threads do not collect them.
//
// A stripe that is handed to an async waiter, or freed for one to try, is unused until that thread's event loop runs,
// which may take seconds. The waiting threads take it back: a blocked thread at the end of each slice and at its
// deadline; a thread with async waiters at their deadlines, and when its event loop checks periodically. The waiter
// that loses its turn keeps its place in the queue, and is skipped until its thread runs again
// (Participant::comesBack).

#pragma once

#include "core/table.h"

namespace stripelock {

// Takes the stripe back from all threads except `self` that have not collected it for a long time; see
// AsyncWaits::revoke for `last`. Call it with nothing locked. Returns true if there was one: the stripe has then passed
// to the next waiter.
bool revokeIdle(Table& table, std::uint32_t stripe, const Participant& self, bool last);

}  // namespace stripelock
