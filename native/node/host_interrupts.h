// The events that make a blocked thread return to its host. The thread ends (worker.terminate(), process.exit()), or
// its script does (the timeout of node:vm, or Ctrl+C with its option breakOnSigint).

#pragma once

#include <napi.h>

#include "core/table/sync_wait.h"

namespace stripelock {

class HostInterrupts {
 public:
  void open(Napi::Env env);
  // Created for a blocking call. `env` is the environment of the function that JavaScript called.
  Interrupt of(napi_env env);

 private:
  static bool requested(void* self);
  static bool ending(void* self);
  bool ask() const;

  napi_env env_ = nullptr;
  // A function in JavaScript that does nothing. Empty if the host cannot make one.
  Napi::FunctionReference nothing_;
};

}  // namespace stripelock
