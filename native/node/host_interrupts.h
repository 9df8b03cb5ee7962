// Checks for the events that make a blocked thread return to its host: the thread is being ended (worker.terminate(),
// process.exit()), or its script is (by the timeout of node:vm, or by Ctrl+C with the option breakOnSigint).

#pragma once

#include <napi.h>

#include "core/table/sync_wait.h"

namespace stripelock {

class HostInterrupts {
 public:
  void open(Napi::Env env);
  // Returns the checks for a blocking call. `env` is the environment of the function that JavaScript called.
  Interrupt of(napi_env env);

 private:
  static bool requested(void* self);
  static bool ending(void* self);
  bool ask() const;

  napi_env env_ = nullptr;
  // A JavaScript function that does nothing. Empty if the host cannot create one.
  Napi::FunctionReference nothing_;
};

}  // namespace stripelock
