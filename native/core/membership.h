// One thread's use of one table.

#pragma once

#include <memory>
#include <vector>

#include "core/key_pins.h"
#include "core/table.h"

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

  // Where this thread's shared holds are counted (shareIntsFor). The memory must stay until the membership ends. The fast
  // path also counts there, right after it changes the word.
  void openShares(Word* shares) { shares_.store(shares); }
  bool hasShares() const { return shares_.load() != nullptr; }

  // False: according to the word, this thread does not hold the stripe in this mode. Grants to async waiters of this
  // same thread do not wake its event loop: the caller checks AsyncWaits::hasReady.
  bool release(std::uint32_t stripe, Mode mode, Leave::How how = Leave::How::kRelease);
  // Where this thread counts its acquisitions that wait in JavaScript, by stripe; then all of them, and those that had
  // to wait since it began to count. Only this thread writes there. The memory must stay until the membership ends.
  void openLocals(Word* locals) { locals_.store(locals); }
  void countShares(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by);
  // Counts what was taken for a sync waiter at once, so that the wait graph sees it while the waiter still
  // waits. Its thread is blocked, so the granting thread may count. What is taken for an async waiter is counted
  // apart until its thread notices the grant, since that thread may itself be counting meanwhile.
  void countTaken(const Waiter& waiter, std::uint32_t stripe) {
    if (waiter.async) {
      countUnnoticed(&stripe, 1, waiter.mode, +1);
    } else {
      countShares(&stripe, 1, waiter.mode, +1);
    }
  }
  // The same for what was taken for an async waiter. Only people read it.
  void countUnnoticed(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by);
  void count(std::uint32_t cell, std::int64_t by = 1) { table_.cell(cell).fetch_add(by); }
  // Frees the stripes that its thread still holds, and flags as abandoned those whose next holder is to be told.
  void abandon();

  // Whether its thread holds the stripe.
  bool holds(std::uint32_t stripe) const;

  // ── exact keys ──

  // nullptr if its table has no exact keys.
  KeyPins* pins() { return pins_.get(); }
  // Call it after abandon().
  void unpinAll() {
    if (pins_) pins_->unpinAll();
  }
  // `by` more async acquisitions wait for these stripes.
  void countWaits(const std::uint32_t* stripes, std::uint32_t count, int by) {
    if (pins_) pins_->countWaits(stripes, count, by);
  }

  // How many times the registry handed it out.
  std::uint32_t references = 0;
  // Async acquisitions that wait.
  std::uint32_t pending = 0;
  // The host's number for it.
  std::uint32_t number = 0;

  // ── by any thread that has locked the table's members ──

  std::uint32_t sharesOf(std::uint32_t stripe) const {
    const Word* shares = shares_.load();
    return shares ? shares[stripe].load() : 0;
  }
  // What was taken for its thread's async waiters before the thread knew.
  std::uint32_t unnoticedOf(std::uint32_t stripe) const {
    const Word* shares = shares_.load();
    return shares ? shares[table_.stripes() + stripe].load() : 0;
  }
  // What its thread counts at that index of its locals. They end with the thread, and so do these counts.
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
  // Its index in Table::members, guarded by Table::membersMutex.
  std::size_t place_ = 0;
  const std::unique_ptr<KeyPins> pins_;
};

}  // namespace stripelock
