#include "core/table/registry.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/table/inspect.h"

namespace stripelock {

namespace {

// The host's number for its main thread.
constexpr std::int32_t kMainThread = 0;

// 2^63. Doubles from this number up do not fit into a 64-bit integer.
constexpr double kLargestCount = 9223372036854775808.0;

// The counts of a table: its cells, plus the locals of its members.
LockMetrics countedBy(Table& table) {
  // ~Membership moves a count from the locals to the cell under this mutex.
  const Lock lock(table.membersMutex);
  const auto cell = [&table](std::uint32_t index) {
    return static_cast<std::uint64_t>(table.cell(index).load());
  };
  LockMetrics counted;
  counted[LockMetrics::kContended] = cell(kContendedCell);
  counted[LockMetrics::kTimeouts] = cell(kTimeoutsCell);
  counted[LockMetrics::kAborts] = cell(kAbortsCell);
  counted[LockMetrics::kDeadlocks] = cell(kDeadlocksCell);
  counted[LockMetrics::kAbandoned] = cell(kAbandonedCell);
  counted[LockMetrics::kNanoseconds] = cell(kWaitedNanoseconds);
  for (std::uint32_t i = 0; i < kWaitRanges; ++i) counted[LockMetrics::kWaits + i] = cell(kWaitTimes + i);
  for (const Membership* member : table.members)
    counted[LockMetrics::kContended] += member->localsAt(localContendedIndex(table.stripes()));
  return counted;
}

// add() adds the counts from `first` on. subtract() subtracts the counts that never fall.
void add(LockMetrics& to, const LockMetrics& counted, std::uint32_t first) {
  for (std::uint32_t i = first; i < LockMetrics::kCells; ++i) to[i] += counted[i];
}
void subtract(LockMetrics& from, const LockMetrics& counted) {
  for (std::uint32_t i = LockMetrics::kContended; i < LockMetrics::kCells; ++i) from[i] -= counted[i];
}

bool hasCounted(const LockMetrics& metrics) {
  std::uint64_t any = 0;
  for (std::uint32_t i = LockMetrics::kContended; i < LockMetrics::kCells; ++i) any |= metrics[i];
  return any != 0;
}

// The counts in one thread's cells.
LockMetrics countedIn(const CountCell* cells) {
  LockMetrics counted;
  for (std::uint32_t i = 0; i < LockMetrics::kCells; ++i) {
    const double count = cells[i].load(std::memory_order_relaxed);
    // JavaScript can write any number to its cells.
    if (count >= 0 && count < kLargestCount)
      counted[i] = static_cast<std::uint64_t>(static_cast<std::int64_t>(count));
  }
  return counted;
}

MetricName nameOf(const Table& table) {
  return {.kind = table.gate() ? LockKind::kProcess : LockKind::kLock, .name = table.name()};
}

}  // namespace

Registry& Registry::instance() {
  // Never destroyed: threads may outlive static destruction.
  static Registry& registry = *new Registry();
  return registry;
}

Registry::Registry()
    : id_([] {
        std::random_device random;
        return (std::uint64_t{random()} << 32) | random();
      }()) {}

Participant* Registry::join(std::int32_t threadId, Participant::WakeLoop wakeLoop) {
  std::uint32_t slot = 0;
  {
    const Lock lock(mutex_);
    if (!freeSlots_.empty()) {
      slot = freeSlots_.back();
      freeSlots_.pop_back();
    } else if (usedSlots_ < kMaxSlots) {
      slot = ++usedSlots_;
      participants_[slot].store(new Participant(slot));
    } else {
      return nullptr;
    }
  }
  Participant& participant = *participants_[slot].load();
  participant.start(threadId, wakeLoop);
  return &participant;
}

void Registry::leave(Participant& participant) {
  // First stops the wakes: the event loop is ending and will collect no grants.
  // mutant: death-slot-first
  participant.stop();
  STRIPELOCK_SEAM("leave: before the waits are cancelled");
  participant.asyncWaits().close();
  // The host ends its main thread last, after all other threads, and then the process. So no thread needs the stripes
  // that this thread holds. Reading all words of large locks would only delay the end.
  const bool processEnds = participant.threadId() == kMainThread && isAlone();
  while (!participant.memberships.empty()) end(*participant.memberships.begin()->second, processEnds);
  if (participant.arena) freeSpans_.leave(*participant.arena);
  participant.arena.reset();
  // No word names the slot anymore, so the next thread that gets the slot inherits nothing.
  const Lock lock(mutex_);
  threadCounts_.remove_if([&](const ThreadCounts& counts) {
    if (counts.thread != &participant) return false;
    LockMetrics counted = countedIn(counts.cells);
    counted[LockMetrics::kAbandoned] += counted[LockMetrics::kHeld];
    // mutant: metrics-forget-threads
    addEnded(counts.name, counted);
    return true;
  });
  freeSlots_.push_back(participant.slot());
}

bool Registry::isAlone() {
  const Lock lock(mutex_);
  return usedSlots_ - freeSlots_.size() == 1;
}

Participant* Registry::bySlot(std::uint32_t slot) {
  return slot <= kMaxSlots ? participants_[slot].load() : nullptr;
}

Membership* Registry::open(Participant& participant, void* memory, std::uint32_t stripes, bool exact,
                           std::uint32_t limit, const std::string& name, const std::shared_ptr<Gate>& gate) {
  const auto fits = [&](const Table& table) {
    return table.stripes() == stripes && (table.keys() != nullptr) == exact && table.limit() == limit;
  };
  const auto open = participant.memberships.find(memory);
  if (open != participant.memberships.end()) {
    Membership* const membership = open->second;
    if (!fits(membership->table())) return nullptr;
    ++membership->references;
    return membership;
  }
  Table* table = nullptr;
  {
    const Lock lock(mutex_);
    SharedTable& entry = tables_[memory];
    if (!entry.table) {
      entry.table = std::make_shared<Table>(memory, stripes, exact, limit, name, gate);
      if (gate) gate->attach(entry.table);
      entry.before = countedBy(*entry.table);
      entry.table->observed().store(observedOf(entry.table->name()));
    }
    if (!fits(*entry.table)) return nullptr;
    ++entry.members;
    // A second thread has opened the table, so other threads can reach its memory.
    // mutant: S1-frees-what-others-know
    if (entry.members > 1) entry.own.reset();
    table = entry.table.get();
  }
  auto* const membership = new Membership(*table, participant);
  membership->references = 1;
  participant.memberships.emplace(memory, membership);
  return membership;
}

void Registry::close(Membership& membership) {
  if (--membership.references > 0) return;
  // Most locks have no pending acquisitions when they are closed. For those, closeMembership() is skipped, because it
  // visits all pending acquisitions of the thread.
  if (membership.pending > 0) membership.participant().asyncWaits().closeMembership(membership);
  end(membership);
}

std::map<MetricName, LockMetrics> Registry::metrics() {
  const Lock lock(mutex_);
  std::map<MetricName, LockMetrics> all;
  for (const auto& [name, counted] : ended_) add(all[name], counted, LockMetrics::kContended);
  for (const auto& [memory, shared] : tables_) {
    Table& table = *shared.table;
    LockMetrics& of = all[nameOf(table)];
    add(of, countedBy(table), LockMetrics::kContended);
    subtract(of, shared.before);
    ++of[LockMetrics::kLocks];
    of[LockMetrics::kHeld] += countHeld(table);
    // The cell may be negative for a moment: see AsyncWaits::countWaiting().
    const std::int64_t queued = std::max<std::int64_t>(table.cell(kWaitingCell).load(), 0);
    of[LockMetrics::kWaiting] += static_cast<std::uint64_t>(queued) + countLocals(table).waiting;
  }
  for (const ThreadCounts& counts : threadCounts_) {
    add(all[counts.name], countedIn(counts.cells), LockMetrics::kLocks);
  }
  return all;
}

void Registry::openCounts(Participant& participant, const MetricName& name, CountCell* cells) {
  const Lock lock(mutex_);
  cells[LockMetrics::kObserved].store(observedOf(name.name));
  threadCounts_.push_front({.thread = &participant, .name = name, .cells = cells});
}

void Registry::observe(std::uint32_t bit, bool on, std::vector<std::string> names) {
  const Lock lock(mutex_);
  std::erase_if(observations_, [bit](const Observation& one) { return one.bit == bit; });
  if (on) observations_.push_back({bit, std::move(names)});
  for (const auto& [memory, shared] : tables_)
    shared.table->observed().store(observedOf(shared.table->name()));
  for (const ThreadCounts& counts : threadCounts_)
    counts.cells[LockMetrics::kObserved].store(observedOf(counts.name.name));
}

void Registry::addEnded(const SharedTable& shared) {
  Table& table = *shared.table;
  LockMetrics counted = countedBy(table);
  subtract(counted, shared.before);
  addEnded(nameOf(table), counted);
}

void Registry::addEnded(const MetricName& name, const LockMetrics& counted) {
  if (!hasCounted(counted)) return;
  const bool hasRoom = ended_.size() < kMostNames || ended_.contains(name);
  MetricName kept = name;
  if (!hasRoom) kept.name.clear();
  add(ended_[kept], counted, LockMetrics::kContended);
}

std::uint32_t Registry::observedOf(const std::string& name) const {
  std::uint32_t bits = 0;
  for (const auto& [bit, names] : observations_) {
    if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) bits |= bit;
  }
  return bits;
}

void Registry::own(Membership& membership, const Span& span) {
  const Lock lock(mutex_);
  tables_.at(membership.table().memory()).own = span;
}

void Registry::share(Membership& membership) {
  const Lock lock(mutex_);
  tables_.at(membership.table().memory()).own.reset();
}

std::optional<std::uint32_t> Registry::takeSpan(Participant& participant, std::uint64_t arena,
                                                std::uint32_t bytes) {
  if (participant.arena != arena) {
    freeSpans_.join(arena);
    if (participant.arena) freeSpans_.leave(*participant.arena);
    participant.arena = arena;
  }
  return freeSpans_.take(arena, bytes);
}

void Registry::end(Membership& membership, bool processEnds) {
  STRIPELOCK_SEAM("end: before the stripes are freed");
  membership.table().notes.removeAll(membership);
  if (!processEnds) {
    // In this order, an abandoned key becomes an orphan (preserves N2). In the opposite order, the key would be freed.
    // mutant: N2-unpins-first
    membership.abandon();
    membership.unpinAll();
  }
  void* const memory = membership.table().memory();
  membership.participant().memberships.erase(memory);
  delete &membership;
  const Lock lock(mutex_);
  const auto entry = tables_.find(memory);
  if (--entry->second.members > 0) return;
  const std::optional<Span> own = entry->second.own;
  // The counts are added before the memory can be used again. tables_ and ended_ change under one mutex, so metrics()
  // counts this table exactly once.
  // mutant: metrics-forget-the-ended
  addEnded(entry->second);
  tables_.erase(entry);
  // This is the last step, because another thread may use the memory afterwards (preserves S1).
  if (own) freeSpans_.add(*own);
}

}  // namespace stripelock
