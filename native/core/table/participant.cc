#include "core/table/participant.h"

#include "core/table/waiter.h"
#include "core/table/wake_set.h"

namespace stripelock {

void WakeSet::wake(const Entry& entry) {
  if (entry.ready) {
    entry.participant->wakeReady();
  } else {
    entry.participant->parker().unpark();
  }
}

void WakeSet::send() {
  for (std::size_t i = 0; i < count_; ++i) wake(few_[i]);
  for (const Entry& entry : more_) wake(entry);
  count_ = 0;
  more_.clear();
}

void Participant::start(std::int32_t threadId, WakeLoop wakeLoop) {
  threadId_.store(threadId);
  const Lock lock(wakeMutex_);
  wakeLoop_ = wakeLoop;
  // mutant: wake-of-earlier-thread
  waking_.store(false);
  absent_.store(false);
}

void Participant::stop() {
  const Lock lock(wakeMutex_);
  wakeLoop_ = {};
}

void Participant::pushReady(Waiter& waiter) {
  const Lock lock(readyMutex_);
  pushReadyLocked(waiter);
}

void Participant::pushGranted(Waiter& waiter) {
  const Lock lock(readyMutex_);
  undelivered_.fetch_add(1);
  waiter.state.store(WaiterState::kGranted);
  pushReadyLocked(waiter);
}

void Participant::pushReadyLocked(Waiter& waiter) {
  waiter.ready = true;
  waiter.readyAt = recently();
  waiter.nextReady = nullptr;
  (readyTail_ ? readyTail_->nextReady : readyHead_) = &waiter;
  readyTail_ = &waiter;
  hasReady_.store(true);
}

void Participant::unlinkReady(Waiter* before, Waiter& waiter) {
  (before ? before->nextReady : readyHead_) = waiter.nextReady;
  if (readyTail_ == &waiter) readyTail_ = before;
  waiter.nextReady = nullptr;
  waiter.ready = false;
  if (!readyHead_) hasReady_.store(false);
}

// Call it after takeReady(): that call clears waking_, so later calls of wakeReady() send a new wake. A revoking thread
// calls wakeReady() last. So if this check comes before the revocation, the new wake makes the event loop check again.
bool Participant::comesBack() {
  if (!absent_.load()) return false;
  absent_.store(false);
  STRIPELOCK_SEAM("come back: before resettling");
  return passedOver_.exchange(false);
}

Waiter* Participant::takeReady() {
  // mutant: wake-after-look
  waking_.store(false);
  STRIPELOCK_SEAM("take: before the ready list");
  const Lock lock(readyMutex_);
  Waiter* const first = readyHead_;
  readyHead_ = readyTail_ = nullptr;
  hasReady_.store(false);
  return first;
}

void Participant::wakeReady() {
  STRIPELOCK_SEAM("wake: before it is noted");
  // The caller has already pushed the grant, and block() checks for grants after it sets blocked_. At least one of the
  // two sees the other's change, so a blocked thread never sleeps with a grant in its ready list.
  // mutant: wake-of-blocked
  if (blocked_.load()) parker_.unpark();
  if (waking_.exchange(true)) return;
  STRIPELOCK_SEAM("wake: before the event loop");
  const Lock lock(wakeMutex_);
  if (wakeLoop_.wake) wakeLoop_.wake(wakeLoop_.data);
}

void Participant::block() {
  blocked_.store(true);
  STRIPELOCK_SEAM("block: before reclaiming");
  asyncWaits_.reclaim();
}

void Participant::unblock() {
  blocked_.store(false);
  STRIPELOCK_SEAM("unblock: before resettling");
  // mutant: I3-passed-over-for-good
  if (passedOver_.exchange(false)) asyncWaits_.resettle();
}

}  // namespace stripelock
