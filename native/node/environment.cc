#include "node/environment.h"

namespace stripelock {

Environment::~Environment() {
  // The references reset themselves here, in the instance data's finalizer, where that is still allowed.
  leases_.reset();
  if (participant_) Registry::instance().leave(*participant_);
}

bool Environment::start(Napi::Env env, std::int32_t threadId, Napi::Function onReady) {
  const Napi::String name = Napi::String::New(env, "stripelock");
  if (napi_create_threadsafe_function(env, onReady, nullptr, name, 0, 1, nullptr, nullptr, nullptr, callReady,
                                      &ready_) != napi_ok) {
    return false;
  }
  napi_unref_threadsafe_function(env, ready_);
  participant_ = Registry::instance().join(threadId, {.wake = wake, .data = this});
  if (!participant_) return false;
  leases_ = std::make_unique<Leases>(*participant_);
  napi_add_env_cleanup_hook(env, onEnd, this);
  return true;
}

void Environment::onEnd(void* self) {
  auto& environment = *static_cast<Environment*>(self);
  environment.leases_.reset();
  Registry::instance().leave(*environment.participant_);
  environment.participant_ = nullptr;
  for (const auto& table : environment.tables_) {
    if (table) table->membership = nullptr;
  }
  // The last use of it; Node frees it when it cleans up.
  napi_release_threadsafe_function(environment.ready_, napi_tsfn_release);
}

void Environment::wake(void* self) {
  // Never blocks: the queue is unbounded, and at most one wake is under way (Participant::wakeReady).
  napi_call_threadsafe_function(static_cast<Environment*>(self)->ready_, nullptr, napi_tsfn_nonblocking);
}

void Environment::callReady(napi_env env, napi_value callback, void*, void*) {
  // Without an environment when it is being torn down.
  if (!env) return;
  napi_value receiver = nullptr;
  napi_get_undefined(env, &receiver);
  napi_call_function(env, receiver, callback, 0, nullptr, nullptr);
}

void Environment::keepAlive(Napi::Env env, bool alive) {
  if (alive) {
    napi_ref_threadsafe_function(env, ready_);
  } else {
    napi_unref_threadsafe_function(env, ready_);
  }
}

std::int32_t Environment::open(Napi::Int32Array words, std::uint32_t stripes) {
  Membership* const membership = Registry::instance().open(*participant_, words.Data(), stripes);
  if (!membership) return -1;
  std::size_t unused = tables_.size();
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (!tables_[i]) unused = i;
    if (tables_[i] && tables_[i]->membership == membership) return static_cast<std::int32_t>(i);
  }
  if (unused == tables_.size()) tables_.emplace_back();
  tables_[unused] = std::make_unique<OpenTable>();
  tables_[unused]->membership = membership;
  tables_[unused]->words = Napi::Persistent(words);
  return static_cast<std::int32_t>(unused);
}

void Environment::close(std::uint32_t table) {
  Membership& membership = *tables_[table]->membership;
  const bool last = membership.references == 1;
  Registry::instance().close(membership);
  if (last) tables_[table].reset();
}

void Environment::openLeaseExchange(Napi::Float64Array numbers) {
  leaseExchange_ = Napi::Persistent(numbers);
  leases_->exchange = static_cast<LeaseExchange*>(static_cast<void*>(numbers.Data()));
}

Napi::Value Environment::openShares(std::uint32_t table, Napi::Int32Array shares) {
  OpenTable& open = *tables_[table];
  if (open.shares.IsEmpty()) {
    open.shares = Napi::Persistent(shares);
    open.membership->openShares(static_cast<Word*>(static_cast<void*>(shares.Data())));
  }
  return open.shares.Value();
}

}  // namespace stripelock
