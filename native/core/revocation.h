// Stripes that lie idle with an async waiter whose thread does not come for them.
//
// A stripe that is handed to an async waiter, or freed for one to try, lies unused until that thread's event loop
// turns, which may be seconds later. The threads that wait behind take it back: a blocked thread at the end of each
// slice and at its deadline, a thread with async waiters at their deadlines and when its event loop looks now and
// then. The waiter that loses its turn keeps its place in the queue, and is passed over until its thread looks again
// (Participant::comesBack).

#pragma once

#include "core/table.h"

namespace stripelock {

// Takes the stripe back from all threads except `self` that have not come for it for a long time; see
// AsyncWaits::revoke for `last`. Call it with nothing locked. True if there was one: the stripe has then passed to the
// next waiter.
bool revokeIdle(Table& table, std::uint32_t stripe, const Participant& self, bool last);

}  // namespace stripelock
