#include "node/host_interrupts.h"

namespace stripelock {

namespace {

// Runs a script in the main context of the environment, even if code from strings is disallowed. Returns an empty value
// if the script throws.
Napi::Value evaluate(Napi::Env env, const char* script) {
  napi_value result = nullptr;
  if (napi_run_script(env, Napi::String::New(env, script), &result) == napi_ok) return {env, result};
  if (env.IsExceptionPending()) static_cast<void>(env.GetAndClearPendingException());
  return {};
}

// Node refuses napi_strict_equals() if the environment may run no more JavaScript. This check does not detect the
// timeout of a script.
bool mayRunNoMore(napi_env env) {
  napi_value undefined = nullptr;
  napi_get_undefined(env, &undefined);
  bool equal = false;
  return napi_strict_equals(env, undefined, undefined, &equal) != napi_ok;
}

}  // namespace

void HostInterrupts::open(Napi::Env env) {
  env_ = env;
  const Napi::HandleScope scope(env);
  const Napi::Value nothing = evaluate(env, "() => {}");
  if (!nothing.IsEmpty() && nothing.IsFunction()) nothing_ = Napi::Persistent(nothing.As<Napi::Function>());
}

Interrupt HostInterrupts::of(napi_env env) {
  env_ = env;
  return {.requested = requested, .data = this, .ending = ending};
}

bool HostInterrupts::requested(void* self) {
  const auto& interrupts = *static_cast<const HostInterrupts*>(self);
  napi_handle_scope scope = nullptr;
  napi_open_handle_scope(interrupts.env_, &scope);
  const bool requested = interrupts.ask();
  napi_close_handle_scope(interrupts.env_, scope);
  return requested;
}

// Calls a JavaScript function, because V8 handles interrupts in such a call. If the host has requested the end of the
// thread or script, V8 begins to end it in this call, and continues after the addon has returned. In between, the addon
// must make no other Node-API calls, because they would be refused.
bool HostInterrupts::ask() const {
  napi_value undefined = nullptr;
  napi_get_undefined(env_, &undefined);
  if (!nothing_.IsEmpty()) {
    napi_value nothing = nullptr;
    napi_get_reference_value(env_, nothing_, &nothing);
    if (napi_call_function(env_, undefined, nothing, 0, nullptr, nullptr) == napi_ok) return false;
    bool thrown = false;
    napi_is_exception_pending(env_, &thrown);
    // The environment may run no more JavaScript.
    if (!thrown) return true;
    // This clears only Node-API's record of the exception. V8 still ends the script.
    napi_value exception = nullptr;
    napi_get_and_clear_last_exception(env_, &exception);
    napi_valuetype type = napi_undefined;
    napi_typeof(env_, exception, &type);
    if (type == napi_null) return true;
    // Otherwise the exception is a stack overflow: the thread is close to the end of its stack.
  }
  return mayRunNoMore(env_);
}

bool HostInterrupts::ending(void* self) {
  return mayRunNoMore(static_cast<const HostInterrupts*>(self)->env_);
}

}  // namespace stripelock
