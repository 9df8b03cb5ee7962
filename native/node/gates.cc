#include "node/gates.h"

#include "node/lease_call.h"

namespace stripelock {

namespace {

// gateIssue(): a number for a new gate
napi_value gateIssue(napi_env env, napi_callback_info) {
  return real(env, static_cast<double>(LeaseRegistry::instance().issueGate()));
}

// gateOpen(number, capacity): gate, or -1 for a number that was not issued
napi_value gateOpen(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info);
  std::uint64_t named = 0;
  std::uint64_t capacity = 0;
  if (!call.started() || !call.toNumber(0, 1, kMaxNumber, named) ||
      !call.toNumber(1, 1, 4294967295.0, capacity)) {
    return invalidArgument(env, "expected a number and a capacity");
  }
  return call.number(call.leases().openGate(named, static_cast<std::uint32_t>(capacity)));
}

// gateClose(gate)
napi_value gateClose(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info);
  std::uint64_t place = 0;
  if (!call.toGate(0) || !call.toNumber(0, 0, kMaxNumber, place))
    return invalidArgument(env, "expected an open gate");
  call.leases().closeGate(static_cast<std::uint32_t>(place));
  return nullptr;
}

// gateAdmit(gate, key, token): undefined, or the higher token on account of which it is refused
napi_value gateAdmit(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info);
  FencingGate* const gate = call.toGate(0);
  Text key;
  std::uint64_t token = 0;
  if (!gate || !call.toKey(1, key) || !call.toToken(2, token))
    return invalidArgument(env, "expected a gate, a key and a token");
  const std::uint64_t newest = gate->admit(KeyView(key.view()), token);
  if (newest == 0) return nullptr;
  napi_value result = nullptr;
  napi_create_bigint_uint64(env, newest, &result);
  return result;
}

// gateSize(gate): keys that are remembered
napi_value gateSize(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info);
  const FencingGate* const gate = call.toGate(0);
  if (!gate) return invalidArgument(env, "expected an open gate");
  return real(env, static_cast<double>(gate->size()));
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
