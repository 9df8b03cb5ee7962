// One thread's use of one table.

#pragma once

#include <memory>
#include <vector>

#include "core/table/key_pins.h"
#include "core/table/table.h"

namespace stripelock {

class Membership {
 public:
  Membership(Table& table, Participant& participant);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Table& table() const { return table_; }
  Participant& participant() const { return participant_; }

  // ── by its own thread ──

  // Sets the array that counts this thread's shared holds (shareIntsFor). The array must outlive the membership. The
  // fast path also counts there, right after it changes the word.
  void openShares(Word* shares) { shares_.store(shares); }
  bool hasShares() const { return shares_.load() != nullptr; }

  // Returns false if this thread does not hold the stripe in this mode. If the release grants the stripe to an async
  // waiter of this thread, the thread's event loop is not woken: the caller checks AsyncWaits::hasReady() instead.
  bool release(std::uint32_t stripe, Mode mode, Leave::How how = Leave::How::kRelease);
  // Tries once to acquire a stripe of a table with a gate, exclusively. Also returns false if an earlier holder died or
  // the gate failed; the caller's next acquisition then reports that.
  bool tryEnter(std::uint32_t stripe);
  // Sets the array that counts this thread's acquisitions that wait in JavaScript (localIntsFor). The array must
  // outlive the membership. Only this thread writes there.
  void openLocals(Word* locals) { locals_.store(locals); }
  void countShares(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by);
  // Counts a stripe that was taken for a waiter. For a sync waiter, adds the stripe to the thread's shared holds at
  // once, so that the wait graph sees this hold. The thread is blocked, so the granting thread may write to the counts.
  // The thread of an async waiter may be writing to its counts. So for an async waiter, the stripe is counted
  // separately until that thread collects the grant.
  void countTaken(const Waiter& waiter, std::uint32_t stripe) {
    if (waiter.async) {
      countUnnoticed(&stripe, 1, waiter.mode, +1);
    } else {
      countShares(&stripe, 1, waiter.mode, +1);
    }
  }
  // Counts stripes that were taken for an async waiter and not collected yet. Only inspect() and error messages read
  // this count.
  void countUnnoticed(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by);
  void count(std::uint32_t cell, std::int64_t by = 1) { table_.cell(cell).fetch_add(by); }
  // Call it when the thread ends or closes the table. Frees the stripes that the thread still holds. Sets kAbandoned on
  // a stripe if its next holder must see the death.
  void abandon();

  // Whether this thread holds the stripe.
  bool holds(std::uint32_t stripe) const;

  // ── exact keys ──

  // nullptr if the table has no exact keys.
  KeyPins* pins() { return pins_.get(); }
  // Call it after abandon().
  void unpinAll() {
    if (pins_) pins_->unpinAll();
  }
  // Adds `by` to the number of async acquisitions that wait for each of these stripes.
  void countWaits(const std::uint32_t* stripes, std::uint32_t count, int by) {
    if (pins_) pins_->countWaits(stripes, count, by);
  }

  // The number of Registry::open() calls without a matching close().
  std::uint32_t references = 0;
  // The number of pending async acquisitions.
  std::uint32_t pending = 0;
  // The host's number for this membership.
  std::uint32_t number = 0;

  // ── by any thread that has locked the table's members ──

  std::uint32_t sharesOf(std::uint32_t stripe) const {
    const Word* shares = shares_.load();
    return shares ? shares[stripe].load() : 0;
  }
  // The number of holds that were taken for the thread's async waiters and that the thread has not collected.
  std::uint32_t unnoticedOf(std::uint32_t stripe) const {
    const Word* shares = shares_.load();
    return shares ? shares[table_.stripes() + stripe].load() : 0;
  }
  // The count at this index of the thread's array of locals, or 0 if the thread has no such array.
  std::uint32_t localsAt(std::uint32_t index) const {
    const Word* locals = locals_.load();
    return locals ? locals[index].load() : 0;
  }

 private:
  void abandon(std::uint32_t stripe);

  Table& table_;
  Participant& participant_;
  std::atomic<Word*> shares_{nullptr};
  std::atomic<Word*> locals_{nullptr};
  // This membership's index in Table::members, guarded by Table::membersMutex.
  std::size_t place_ = 0;
  const std::unique_ptr<KeyPins> pins_;
};

}  // namespace stripelock
