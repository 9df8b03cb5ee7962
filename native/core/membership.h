// One thread's use of one table.

#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/key_table.h"
#include "core/recurrence.h"
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
  // The same for what was taken for an async waiter. For people to read, and nothing else.
  void countUnnoticed(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by);
  void count(std::uint32_t cell, std::int64_t by = 1) { table_.cell(cell).fetch_add(by); }
  // Frees the stripes that its thread still holds, and flags as abandoned those whose next holder is to be told.
  void abandon();

  // ── exact keys ──

  struct Pinned {
    // KeyTable::kNone: all stripes have other keys.
    std::uint32_t stripe;
    // This thread had pinned the key before.
    bool again = false;
    // As in KeyTable::Pinned.
    bool crowded = false;
    // The stripe was another key's of this thread.
    bool reused = false;
    // Most of the last keys that this thread pinned it had pinned before, so it should remember them.
    bool recurring = false;
  };
  Pinned pin(const KeyView& key);
  // The same for a key that is used once. It may get the stripe of a key that was pinned so before, is not in use any more,
  // and was not pinned otherwise since: so it is an unpin(), too.
  Pinned pinOnce(const KeyView& key);
  // Unpins the stripes that this thread has pinned and does not use(). Those that it uses come to the front.
  // Returns how many these are. No more than it has pinned, however often each is in the list.
  std::size_t unpin(std::int32_t* stripes, std::size_t count);
  // The thread ends, or closes the table. Call it after abandon().
  void unpinAll();
  // Whether this thread holds the stripe, or an async acquisition of it waits for it. Not whether it blocks for it. Those that
  // wait in its JavaScript are behind one of these (I9 in lib/engine/native/local-waits.ts).
  bool uses(std::uint32_t stripe) const;
  // `by` more async acquisitions wait for these stripes.
  void countWaits(const std::uint32_t* stripes, std::uint32_t count, int by);

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
  struct Freed {
    void operator()(std::uint32_t* counts) const;
  };

  // With the pin that it has got from the table of keys.
  Pinned addPin(const KeyView& key, KeyTable::Pinned got);
  bool hasPinned(std::uint32_t stripe) const {
    return stripe / 64 < pinned_.size() && (pinned_[stripe / 64] >> (stripe % 64) & 1) != 0;
  }
  void setPinned(std::uint32_t stripe) { pinned_[stripe / 64] |= std::uint64_t{1} << (stripe % 64); }
  template <typename Visit>
  void forEachPinned(Visit visit) const;
  void abandon(std::uint32_t stripe);

  Table& table_;
  Participant& participant_;
  std::atomic<Word*> shares_{nullptr};
  std::atomic<Word*> locals_{nullptr};
  // Its index in Table::members, guarded by Table::membersMutex.
  std::size_t place_ = 0;
  // Of an exact table: a bit for each stripe that this thread has pinned.
  std::vector<std::uint64_t> pinned_;
  // Of an exact table: for each shard of its keys the stripe that was pinned last by pinOnce(), with a key of that shard,
  // or kNone. No stripe stays here that was pinned otherwise since, or unpinned.
  std::array<std::uint32_t, KeyTable::kShards> onces_;
  Recurrence recurrence_;
  // Of an exact table: how many async acquisitions of this thread ask for each stripe.
  std::unique_ptr<std::uint32_t[], Freed> waits_;
};

}  // namespace stripelock
