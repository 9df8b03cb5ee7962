#include "node/signals.h"

#include "core/base/platform.h"
#include "node/call.h"

namespace stripelock {

namespace {

constexpr std::uint32_t kMostSignal = 0x7fffffff;

// countTerminalSignals(signal): whether deliveries of this signal are counted from now on; see core/base/platform.h
napi_value countSignals(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t signal = 0;
  if (!call.toIndex(0, kMostSignal, signal)) return call.refuse("expected the number of a signal");
  return call.boolean(countTerminalSignals(static_cast<int>(signal)));
}

// takeTerminalSignal(signal): subtracts one from the count of deliveries; false if the count is 0
napi_value takeSignal(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t signal = 0;
  if (!call.toIndex(0, kMostSignal, signal)) return call.refuse("expected the number of a signal");
  return call.boolean(takeTerminalSignal(static_cast<int>(signal)));
}

}  // namespace

void addSignals(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "countTerminalSignals", countSignals);
  addFunction(env, exports, "takeTerminalSignal", takeSignal);
}

}  // namespace stripelock
