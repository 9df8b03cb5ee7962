// The locks of files of one Node.js environment (core/process_locks.h), and the addon's functions for them.

#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>

#include "core/process_locks.h"
#include "node/protocol.h"

namespace stripelock {

// The results of a call, in memory that JavaScript shares.
struct ProcessExchange {
  // If granted.
  std::uint64_t token;
  // If granted or pending: the acquisition's number until it ends.
  std::int32_t id;
  // The outcome of the call, or of the acquisition that takeProcessNews() hands over.
  std::int32_t answer;
  // If granted: whether an earlier holder died.
  std::int32_t abandoned;
  // Whether takeProcessNews() has something to hand over.
  std::int32_t ready;
  // If it failed: a FileFault, and the system's error or 0.
  std::int32_t fault;
  std::int32_t number;
};
static_assert(sizeof(ProcessExchange) == kProcessBytes);
static_assert(offsetof(ProcessExchange, token) == kProcessToken * sizeof(std::uint64_t));
static_assert(offsetof(ProcessExchange, id) == kProcessId * sizeof(std::int32_t));
static_assert(offsetof(ProcessExchange, answer) == kProcessAnswer * sizeof(std::int32_t));
static_assert(offsetof(ProcessExchange, abandoned) == kProcessAbandoned * sizeof(std::int32_t));
static_assert(offsetof(ProcessExchange, ready) == kProcessReady * sizeof(std::int32_t));
static_assert(offsetof(ProcessExchange, fault) == kProcessFault * sizeof(std::int32_t));
static_assert(offsetof(ProcessExchange, number) == kProcessNumber * sizeof(std::int32_t));

class ProcessLockThread {
 public:
  // Once. `numbers` is shared memory of the size of a ProcessExchange.
  void start(Participant& participant, Napi::Float64Array numbers);
  bool started() const { return thread_ != nullptr; }
  // The thread ends. The reference to JavaScript memory stays.
  void end() { thread_.reset(); }

  ProcessThread& thread() const { return *thread_; }
  ProcessExchange& exchange() const { return *exchange_; }
  // Memory for what a call asks for. Read before the call waits.
  ProcessRequest& request() { return request_; }

 private:
  std::unique_ptr<ProcessThread> thread_;
  ProcessExchange* exchange_ = nullptr;
  ProcessRequest request_;
  Napi::Reference<Napi::Float64Array> numbers_;
};

// Adds the functions that lib/engine/native/process-locks.ts calls.
void addProcessLocks(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
