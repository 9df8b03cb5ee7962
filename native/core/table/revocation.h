// Revokes stripes from async waiters whose threads do not collect them.
//
// A stripe may be handed to an async waiter, or freed for that waiter to try. In both cases the stripe stays unused
// until the event loop of the waiter's thread runs. That may take seconds, so the waiting threads revoke the stripe. A
// blocked thread does so at the end of each slice and at its deadline. A thread with async waiters does so at their
// deadlines, and periodically in its event loop. The revoked waiter keeps its place in the queue, and is skipped until
// its thread runs again (Participant::comesBack).

#pragma once

#include "core/table/table.h"

namespace stripelock {

// Revokes the stripe from all threads except `self` that have not collected it for a long time. `last`: see
// AsyncWaits::revoke(). Returns true if the stripe was revoked; it has then passed to the next waiter. Call it with no
// mutex locked.
bool revokeIdle(Table& table, std::uint32_t stripe, const Participant& self, bool last);

}  // namespace stripelock
