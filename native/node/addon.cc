// The addon's exports: what lib/engine/native.ts calls. Every function runs on its environment's thread.

#include <napi.h>

#include <array>
#include <string>

#include "core/hash.h"
#include "core/inspect.h"
#include "core/platform.h"
#include "node/acquisitions.h"
#include "node/arguments.h"
#include "node/environment.h"
#include "node/gates.h"

namespace stripelock {

namespace {

// start(threadId, onReady): slot
Napi::Value start(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Environment& environment = Environment::of(env);
  if (!info[0].IsNumber() || !info[1].IsFunction() || environment.started()) {
    return invalidArgument(env, "expected a thread id and a function, once");
  }
  if (!environment.start(env, info[0].As<Napi::Number>().Int32Value(), info[1].As<Napi::Function>())) {
    Napi::Error::New(env, "too many threads use locks").ThrowAsJavaScriptException();
    return env.Undefined();
  }
  return Napi::Number::New(env, environment.participant().slot());
}

// registryId(): [low, high]
Napi::Value registryId(const Napi::CallbackInfo& info) {
  const std::uint64_t id = Registry::instance().id();
  return toArray(info.Env(), {static_cast<std::int32_t>(id), static_cast<std::int32_t>(id >> 32)});
}

// open(words, stripes): table, or -1
Napi::Value open(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Environment& environment = Environment::of(env);
  if (!environment.started() || !isInt32Array(info[0]) || !isIndex(info[1], kMaxStripes)) {
    return invalidArgument(env, "expected an Int32Array and a number of stripes");
  }
  const auto words = info[0].As<Napi::Int32Array>();
  const std::uint32_t stripes = info[1].As<Napi::Number>().Uint32Value();
  if (!isShared(words) || stripes == 0 || words.ByteLength() != byteLengthFor(stripes) ||
      words.ByteOffset() % (kStripeInts * sizeof(Word)) != 0) {
    return invalidArgument(env, "words must be the shared memory of a lock");
  }
  return Napi::Number::New(env, environment.open(words, stripes));
}

// close(table)
Napi::Value close(const Napi::CallbackInfo& info) {
  if (!tableArgument(info, 0)) return info.Env().Undefined();
  Environment& environment = Environment::of(info.Env());
  // It may be the one that this thread waits for. Called by what interrupts the wait.
  if (environment.blocked()) return invalidArgument(info.Env(), "no table can be closed by a blocked thread");
  environment.close(info[0].As<Napi::Number>().Uint32Value());
  return info.Env().Undefined();
}

// sameMemory(words, words): true if both start at the same address
Napi::Value sameMemory(const Napi::CallbackInfo& info) {
  if (!isInt32Array(info[0]) || !isInt32Array(info[1])) {
    return invalidArgument(info.Env(), "expected two Int32Arrays");
  }
  return Napi::Boolean::New(info.Env(),
                            info[0].As<Napi::Int32Array>().Data() == info[1].As<Napi::Int32Array>().Data());
}

// openShares(table, counts): counts
Napi::Value openShares(const Napi::CallbackInfo& info) {
  const Membership* membership = tableArgument(info, 0);
  if (!membership) return info.Env().Undefined();
  if (!isInt32Array(info[1]) || !isShared(info[1].As<Napi::TypedArray>()) ||
      info[1].As<Napi::Int32Array>().ElementLength() != membership->table().stripes()) {
    return invalidArgument(info.Env(), "expected a shared Int32Array with a count for each stripe");
  }
  return Environment::of(info.Env())
      .openShares(info[0].As<Napi::Number>().Uint32Value(), info[1].As<Napi::Int32Array>());
}

// Units of UTF-16 as UTF-8, where all are ASCII. False where they are not.
bool narrow(const char16_t* units, std::size_t length, char* out) {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < length; ++i) {
    all |= units[i];
    out[i] = static_cast<char>(units[i]);
  }
  return all < 0x80;
}

// hash(key, stripes): stripe
napi_value hash(napi_env env, napi_callback_info info) {
  // Without the wrapper classes: this runs once for each key that is not cached.
  std::size_t count = 2;
  napi_value arguments[2];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  std::uint32_t stripes = 0;
  napi_value result = nullptr;
  if (count < 2 || napi_get_value_uint32(env, arguments[1], &stripes) != napi_ok || stripes == 0) {
    return invalidArgument(env, "expected a key and a number of stripes");
  }
  std::array<char, 1024> few;
  std::size_t length = 0;
  // V8 copies a string in half the time that it takes to encode it.
  std::array<char16_t, 256> units;
  const bool isText =
      napi_get_value_string_utf16(env, arguments[0], units.data(), units.size(), &length) == napi_ok;
  // One less, and some may have been cut off.
  if (isText && length + 1 < units.size() && narrow(units.data(), length, few.data())) {
    napi_create_uint32(env, stripeOfBytes(few.data(), length, stripes), &result);
    return result;
  }
  bool bytes = false;
  if (!isText) napi_is_typedarray(env, arguments[0], &bytes);
  if (bytes) {
    napi_typedarray_type type{};
    void* data = nullptr;
    napi_get_typedarray_info(env, arguments[0], &type, &length, &data, nullptr, nullptr);
    if (type != napi_uint8_array) return invalidArgument(env, "key must be a string or a Uint8Array");
    napi_create_uint32(env, stripeOfBytes(data, length, stripes), &result);
    return result;
  }
  if (napi_get_value_string_utf8(env, arguments[0], few.data(), few.size(), &length) != napi_ok) {
    return invalidArgument(env, "key must be a string or a Uint8Array");
  }
  // A character takes up to 3 bytes for one or two units, so this much room left means that nothing was cut off.
  if (length + 4 < few.size()) {
    napi_create_uint32(env, stripeOfBytes(few.data(), length, stripes), &result);
    return result;
  }
  napi_get_value_string_utf8(env, arguments[0], nullptr, 0, &length);
  std::string many(length, '\0');
  // Room for the terminator that is written too.
  napi_get_value_string_utf8(env, arguments[0], many.data(), length + 1, &length);
  napi_create_uint32(env, stripeOfBytes(many.data(), length, stripes), &result);
  return result;
}

// nextDeadline(): milliseconds until the earliest deadline, 0 if it has passed, Infinity if there is none
Napi::Value nextDeadline(const Napi::CallbackInfo& info) {
  const Environment& environment = Environment::of(info.Env());
  if (!environment.started()) return invalidArgument(info.Env(), "not started");
  const Deadline deadline = environment.participant().asyncWaits().nextDeadline();
  const double left = deadline.isNever() ? std::numeric_limits<double>::infinity()
                                         : std::max(0.0, static_cast<double>(deadline.point() - now()) / 1e6);
  return Napi::Number::New(info.Env(), left);
}

// keepAlive(alive): whether the event loop is to stay alive
Napi::Value keepAlive(const Napi::CallbackInfo& info) {
  Environment& environment = Environment::of(info.Env());
  if (!environment.started() || !isBoolean(info[0])) return invalidArgument(info.Env(), "expected a boolean");
  environment.keepAlive(info.Env(), info[0].As<Napi::Boolean>());
  return info.Env().Undefined();
}

// holders(table, stripe): ids of the threads that hold it
Napi::Value holders(const Napi::CallbackInfo& info) {
  Membership* const membership = tableArgument(info, 0);
  if (!membership) return info.Env().Undefined();
  if (!isIndex(info[1], membership->table().stripes() - 1))
    return invalidArgument(info.Env(), "expected a stripe");
  return toArray(info.Env(), holdersOf(membership->table(), info[1].As<Napi::Number>().Uint32Value()));
}

// held(table): how many stripes are held
Napi::Value held(const Napi::CallbackInfo& info) {
  Membership* const membership = tableArgument(info, 0);
  if (!membership) return info.Env().Undefined();
  return Napi::Number::New(info.Env(), countHeld(membership->table()));
}

Napi::Array tracedArray(Napi::Env env, const StripeInfo& stripe) {
  Napi::Array result = Napi::Array::New(env, stripe.traced.size());
  for (std::size_t i = 0; i < stripe.traced.size(); ++i) {
    const StripeInfo::Traced& traced = stripe.traced[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("threadId", Napi::Number::New(env, traced.threadId));
    object.Set("heldFor", Napi::Number::New(env, traced.milliseconds));
    object.Set("note", Napi::String::New(env, traced.note));
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

// inspect(table): [{ stripe, word, holders: [threadId], traced: [{ threadId, heldFor, note }],
//                    waiters: [{ threadId, async, shared, waitingFor, note }] }]
Napi::Value inspectTable(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Membership* const membership = tableArgument(info, 0);
  if (!membership) return env.Undefined();
  const std::vector<StripeInfo> stripes = inspect(membership->table());
  Napi::Array result = Napi::Array::New(env, stripes.size());
  for (std::size_t i = 0; i < stripes.size(); ++i) {
    const Napi::HandleScope scope(env);
    const StripeInfo& stripe = stripes[i];
    Napi::Array waiters = Napi::Array::New(env, stripe.waiters.size());
    for (std::size_t j = 0; j < stripe.waiters.size(); ++j) {
      const StripeInfo::Waiting& waiting = stripe.waiters[j];
      Napi::Object object = Napi::Object::New(env);
      object.Set("threadId", Napi::Number::New(env, waiting.threadId));
      object.Set("async", Napi::Boolean::New(env, waiting.async));
      object.Set("shared", Napi::Boolean::New(env, waiting.mode == Mode::kShared));
      object.Set("waitingFor", Napi::Number::New(env, waiting.milliseconds));
      object.Set("note", Napi::String::New(env, waiting.note));
      waiters.Set(static_cast<std::uint32_t>(j), object);
    }
    Napi::Object object = Napi::Object::New(env);
    object.Set("stripe", Napi::Number::New(env, stripe.stripe));
    object.Set("word", Napi::Number::New(env, static_cast<std::int32_t>(stripe.word)));
    object.Set("holders", toArray(env, stripe.holders));
    object.Set("traced", tracedArray(env, stripe));
    object.Set("waiters", waiters);
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

// addNote(table, stripes, text): id
Napi::Value addNote(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Membership* const membership = tableArgument(info, 0);
  if (!membership) return env.Undefined();
  if (!isInt32Array(info[1]) || !info[2].IsString())
    return invalidArgument(env, "expected stripes and a text");
  const auto stripes = info[1].As<Napi::Int32Array>();
  const std::uint32_t id = membership->table().notes.add(
      {.membership = membership,
       .threadId = membership->participant().threadId(),
       .stripes = std::vector<std::uint32_t>(stripes.Data(), stripes.Data() + stripes.ElementLength()),
       .text = info[2].As<Napi::String>().Utf8Value(),
       .since = now()});
  return Napi::Number::New(env, id);
}

// removeNote(table, id)
Napi::Value removeNote(const Napi::CallbackInfo& info) {
  Membership* const membership = tableArgument(info, 0);
  if (!membership) return info.Env().Undefined();
  if (!info[1].IsNumber()) return invalidArgument(info.Env(), "expected a note's id");
  membership->table().notes.remove(info[1].As<Napi::Number>().Uint32Value());
  return info.Env().Undefined();
}

template <Napi::Value (*function)(const Napi::CallbackInfo&)>
void add(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New<function>(exports.Env(), name));
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  pinModule();
  env.SetInstanceData(new Environment());
  add<start>(exports, "start");
  add<registryId>(exports, "registryId");
  add<open>(exports, "open");
  add<close>(exports, "close");
  add<sameMemory>(exports, "sameMemory");
  add<openShares>(exports, "openShares");
  add<nextDeadline>(exports, "nextDeadline");
  add<keepAlive>(exports, "keepAlive");
  add<holders>(exports, "holders");
  add<held>(exports, "held");
  add<inspectTable>(exports, "inspect");
  add<addNote>(exports, "addNote");
  add<removeNote>(exports, "removeNote");
  addAcquisitions(env, exports);
  addLeases(env, exports);
  addGates(env, exports);
  napi_value hashFunction = nullptr;
  napi_create_function(env, "hash", NAPI_AUTO_LENGTH, hash, nullptr, &hashFunction);
  exports.Set("hash", hashFunction);
  return exports;
}

}  // namespace

NODE_API_MODULE(stripelock, initialize)

}  // namespace stripelock
