#include "node/environment.h"

#include <utility>

#include "core/table/contention_profile.h"

namespace stripelock {

Environment::~Environment() {
  // The references reset themselves here. Node-API still allows that in the instance data's finalizer.
  leases_.reset();
  named_.end();
  if (participant_) Registry::instance().leave(*participant_);
  processes_.end();
}

bool Environment::start(Napi::Env env, std::int32_t threadId, Napi::Function onReady) {
  const Napi::String name = Napi::String::New(env, "stripelock");
  if (napi_create_threadsafe_function(env, onReady, nullptr, name, 0, 1, nullptr, nullptr, nullptr, callReady,
                                      &ready_) != napi_ok) {
    return false;
  }
  napi_unref_threadsafe_function(env, ready_);
  interrupts_.open(env);
  participant_ = Registry::instance().join(threadId, {.wake = wake, .data = this});
  if (!participant_) return false;
  leases_ = std::make_unique<Leases>(*participant_);
  napi_add_env_cleanup_hook(env, onEnd, this);
  return true;
}

void Environment::onEnd(void* self) {
  auto& environment = *static_cast<Environment*>(self);
  environment.leases_.reset();
  environment.named_.end();
  if (environment.profiles) ContentionProfile::instance().stop();
  ContentionProfile::instance().leaveLeaseWaits(&environment);
  Registry::instance().leave(*environment.participant_);
  environment.participant_ = nullptr;
  environment.processes_.end();
  for (const auto& table : environment.tables_) {
    if (table) table->membership = nullptr;
  }
  // This is the last use of ready_. Node frees it during its clean-up.
  napi_release_threadsafe_function(environment.ready_, napi_tsfn_release);
}

void Environment::wake(void* self) {
  // This never blocks: the queue is unbounded, and at most one wake is under way (Participant::wakeReady).
  napi_call_threadsafe_function(static_cast<Environment*>(self)->ready_, nullptr, napi_tsfn_nonblocking);
}

void Environment::callReady(napi_env env, napi_value callback, void*, void*) {
  // The environment is null while it is being torn down.
  if (!env) return;
  napi_value receiver = nullptr;
  napi_get_undefined(env, &receiver);
  napi_call_function(env, receiver, callback, 0, nullptr, nullptr);
}

void Environment::keepAlive(Napi::Env env, Reason reason, bool alive) {
  const auto bit = static_cast<std::uint32_t>(reason);
  const std::uint32_t before = std::exchange(reasons_, alive ? reasons_ | bit : reasons_ & ~bit);
  if ((before == 0) == (reasons_ == 0)) return;
  if (alive) {
    napi_ref_threadsafe_function(env, ready_);
  } else {
    napi_unref_threadsafe_function(env, ready_);
  }
}

std::int32_t Environment::open(Napi::Int32Array words, std::uint32_t stripes, bool exact, std::uint32_t limit,
                               const std::string& name, const std::shared_ptr<Gate>& gate) {
  Membership* const membership =
      Registry::instance().open(*participant_, words.Data(), stripes, exact, limit, name, gate);
  if (!membership) return kNotOpened;
  if (membership->references > 1) return static_cast<std::int32_t>(membership->number);
  if (freeNumbers_.empty()) {
    freeNumbers_.push_back(static_cast<std::uint32_t>(tables_.size()));
    tables_.emplace_back();
  }
  membership->number = freeNumbers_.back();
  freeNumbers_.pop_back();
  auto table = std::make_unique<OpenTable>();
  table->membership = membership;
  table->words = Napi::Persistent(words);
  tables_[membership->number] = std::move(table);
  return static_cast<std::int32_t>(membership->number);
}

void Environment::close(std::uint32_t table) {
  Membership& membership = *tables_[table]->membership;
  const bool last = membership.references == 1;
  Registry::instance().close(membership);
  if (!last) return;
  tables_[table].reset();
  freeNumbers_.push_back(table);
}

SyncOutcome Environment::acquireSync(napi_env env, Membership& membership, const Request& request) {
  const bool within = std::exchange(blocked_, true);
  SyncOutcome outcome = SyncWait(membership, request, interrupts_.of(env)).run();
  blocked_ = within;
  return outcome;
}

Napi::Value Environment::openShares(std::uint32_t table, Napi::Int32Array shares) {
  OpenTable& open = *tables_[table];
  if (open.shares.IsEmpty()) {
    open.shares = Napi::Persistent(shares);
    open.membership->openShares(static_cast<Word*>(static_cast<void*>(shares.Data())));
  }
  return open.shares.Value();
}

Napi::Value Environment::openLocals(std::uint32_t table, Napi::Int32Array locals) {
  OpenTable& open = *tables_[table];
  if (open.locals.IsEmpty()) {
    open.locals = Napi::Persistent(locals);
    open.membership->openLocals(static_cast<Word*>(static_cast<void*>(locals.Data())));
  }
  return open.locals.Value();
}

}  // namespace stripelock
