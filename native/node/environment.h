// The state of one Node.js environment (the main thread, or a worker) in the addon.
//
// The clean-up hook (onEnd) ends this state. The hook runs on the environment's own thread, after the last JavaScript.
// It runs before the clean-up of the thread-safe function, because it was registered later. The hook closes the open
// lease tables and gates, and ends the requests for web locks. Then it leaves the registry, which stops wakes, cancels
// pending acquisitions, and releases held stripes. After that, no other thread uses the thread-safe function. Last, the
// hook closes the lock files. References to JavaScript memory are dropped later, with the instance data.

#pragma once

#include <napi.h>

#include <forward_list>
#include <memory>
#include <vector>

#include "core/table/registry.h"
#include "node/host_interrupts.h"
#include "node/leases.h"
#include "node/process_locks.h"
#include "node/web_locks.h"

namespace stripelock {

// The number of each table is below this limit.
inline constexpr std::uint32_t kMostTables = 0x7fffffff;

class Environment {
 public:
  // The calling thread's environment.
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  Environment() = default;
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // Joins the registry. The event loop calls `onReady` when takeGrants(), takeReleasedKeys() or takeWebLockNews() has
  // entries. Returns false if no slot is free.
  bool start(Napi::Env env, std::int32_t threadId, Napi::Function onReady);
  bool started() const { return participant_ != nullptr; }
  Participant& participant() const { return *participant_; }
  Leases* leases() const { return leases_.get(); }
  WebLockThread& named() { return named_; }
  ProcessFiles& processes() { return processes_; }
  // The reasons to keep the event loop alive.
  enum class Reason : std::uint8_t { kAcquisitions = 1, kWebLocks = 2 };
  // Sets or clears one reason.
  void keepAlive(Napi::Env env, Reason reason, bool alive);

  // Returns a table's number in this environment, or kNotOpened if the memory is in use with another number of stripes,
  // another limit, or another value of `exact`.
  std::int32_t open(Napi::Int32Array words, std::uint32_t stripes, bool exact, std::uint32_t limit,
                    const std::string& name, const std::shared_ptr<Gate>& gate = nullptr);
  // Call it as many times as open() returned the number.
  void close(std::uint32_t table);
  // Returns nullptr if no table is open under the number.
  Membership* membership(std::uint32_t table) const {
    return table < tables_.size() && tables_[table] ? tables_[table]->membership : nullptr;
  }
  // Sets the table's array of shared holds, unless the table already has one. `shares` must be in shared memory.
  // Returns the array in use.
  Napi::Value openShares(std::uint32_t table, Napi::Int32Array shares);

  // Does the same for the table's array of acquisitions that wait in JavaScript.
  Napi::Value openLocals(std::uint32_t table, Napi::Int32Array locals);

  // Makes metrics() include the counts in `cells`, which must be in shared memory. See Registry::openCounts.
  void openCounts(const MetricName& name, Napi::Float64Array cells) {
    counts_.push_front(Napi::Persistent(cells));
    Registry::instance().openCounts(*participant_, name,
                                    static_cast<CountCell*>(static_cast<void*>(cells.Data())));
  }

  // Blocks the thread. During the wait, an interrupt of the host, such as a debugger's, may run JavaScript.
  SyncOutcome acquireSync(napi_env env, Membership& membership, const Request& request);
  // Whether this thread started the running contention profile, which stops when the thread ends.
  bool profiles = false;

  // Whether the thread is in acquireSync. Any JavaScript that runs then comes from an interrupt.
  bool blocked() const { return blocked_; }

 private:
  // An open table, and references that keep its memory alive.
  struct OpenTable {
    Membership* membership;
    Napi::Reference<Napi::Int32Array> words;
    Napi::Reference<Napi::Int32Array> shares;
    Napi::Reference<Napi::Int32Array> locals;
  };

  static void onEnd(void* self);
  static void callReady(napi_env env, napi_value callback, void* context, void* data);
  static void wake(void* self);

  HostInterrupts interrupts_;
  bool blocked_ = false;
  Participant* participant_ = nullptr;
  std::unique_ptr<Leases> leases_;
  WebLockThread named_;
  ProcessFiles processes_;
  napi_threadsafe_function ready_ = nullptr;
  std::uint32_t reasons_ = 0;
  // The index is the number. Unused numbers are null here and listed in freeNumbers_.
  std::vector<std::unique_ptr<OpenTable>> tables_;
  std::vector<std::uint32_t> freeNumbers_;
  // References that keep the memory of the thread's counts alive.
  std::forward_list<Napi::Reference<Napi::Float64Array>> counts_;
};

}  // namespace stripelock
