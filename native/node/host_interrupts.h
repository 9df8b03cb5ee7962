// What may call a blocked thread back to its host: the thread is being ended (worker.terminate(), process.exit()), or
// the script that it runs is (the timeout of node:vm, Ctrl+C with breakOnSigint).

#pragma once

#include <napi.h>

#include "core/membership.h"

namespace stripelock {

class HostInterrupts {
 public:
  void open(Napi::Env env);
  // For a call that blocks, with the environment of the function that was called.
  Interrupt of(napi_env env);

 private:
  static bool requested(void* self);
  static bool ending(void* self);
  bool ask() const;

  napi_env env_ = nullptr;
  // Does nothing. Empty where there can be none.
  Napi::FunctionReference nothing_;
  // Of the event loop. -1 where there is none.
  int descriptor_ = -1;
};

}  // namespace stripelock
