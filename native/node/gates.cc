#include "node/gates.h"

#include <limits>

#include "node/lease_call.h"

namespace stripelock {

namespace {

// gateIssue(): a number for a new gate
napi_value gateIssue(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(static_cast<double>(LeaseRegistry::instance().issueGate()));
}

// gateOpen(number, capacity): gate, or kNotOpened for a number that was not issued
napi_value gateOpen(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  std::uint64_t named = 0;
  std::uint32_t capacity = 0;
  if (!call.started() || !call.toNumber(0, 1, kMaxNumber, named) ||
      !call.toIndex(1, std::numeric_limits<std::uint32_t>::max(), capacity) || capacity == 0) {
    return call.refuse("expected a number and a capacity");
  }
  return call.integer(call.leases().openGate(named, capacity));
}

// gateClose(gate)
napi_value gateClose(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  std::uint64_t place = 0;
  if (!call.toGate(0) || !call.toNumber(0, 0, kMaxNumber, place)) return call.refuse("expected an open gate");
  call.leases().closeGate(static_cast<std::uint32_t>(place));
  return nullptr;
}

// gateAdmit(gate, key, token): undefined, or the higher token that caused the refusal
napi_value gateAdmit(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 3);
  FencingGate* const gate = call.toGate(0);
  Text key;
  std::uint64_t token = 0;
  if (!gate || !call.toKey(1, key) || !call.toToken(2, token))
    return call.refuse("expected a gate, a key and a token");
  const std::uint64_t newest = gate->admit(KeyView(key.view()), token);
  if (newest == 0) return nullptr;
  return Napi::BigInt::New(env, newest);
}

// gateSize(gate): the number of keys that the gate remembers
napi_value gateSize(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  FencingGate* const gate = call.toGate(0);
  if (!gate) return call.refuse("expected an open gate");
  return call.number(static_cast<double>(gate->size()));
}

}  // namespace

void addGates(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "gateIssue", gateIssue);
  addFunction(env, exports, "gateOpen", gateOpen);
  addFunction(env, exports, "gateClose", gateClose);
  addFunction(env, exports, "gateAdmit", gateAdmit);
  addFunction(env, exports, "gateSize", gateSize);
}

}  // namespace stripelock
