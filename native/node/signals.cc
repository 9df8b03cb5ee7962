#include "node/signals.h"

#include "core/platform.h"
#include "node/call.h"

namespace stripelock {

namespace {

constexpr std::uint32_t kMostSignal = 0x7fffffff;

// countKeys(signal): whether deliveries of this signal are counted from now on; see core/platform.h
napi_value countKeysOf(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t signal = 0;
  if (!call.toIndex(0, kMostSignal, signal)) return call.refuse("expected the number of a signal");
  return call.boolean(countKeys(static_cast<int>(signal)));
}

// takeKey(signal): whether a key of a terminal sent it, once for each delivery
napi_value takeKeyOf(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t signal = 0;
  if (!call.toIndex(0, kMostSignal, signal)) return call.refuse("expected the number of a signal");
  return call.boolean(takeKey(static_cast<int>(signal)));
}

}  // namespace

void addSignals(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "countKeys", countKeysOf);
  addFunction(env, exports, "takeKey", takeKeyOf);
}

}  // namespace stripelock
