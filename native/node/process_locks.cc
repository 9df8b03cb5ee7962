#include "node/process_locks.h"

#include <limits>
#include <string>

#include "node/call.h"
#include "node/exact_keys.h"

namespace stripelock {

void ProcessLockThread::start(Participant& participant, Napi::Float64Array numbers) {
  numbers_ = Napi::Persistent(numbers);
  exchange_ = static_cast<ProcessExchange*>(static_cast<void*>(numbers.Data()));
  thread_ = std::make_unique<ProcessThread>(participant);
}

namespace {

static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kGranted) == kProcessGranted);
static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kPending) == kProcessPending);
static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kTimedOut) == kProcessTimedOut);
static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kDeadlock) == kProcessDeadlock);
static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kInterrupted) == kProcessInterrupted);
static_assert(static_cast<std::int32_t>(ProcessOutcome::Status::kFailed) == kProcessFailed);

constexpr std::uint32_t kMostFiles = 0x7fffffff;

// A call once the exchange is open.
class ProcessCall : public Call {
 public:
  using Call::Call;

  bool isOpen() const { return environment().processes().started(); }
  ProcessThread& thread() const { return environment().processes().thread(); }
  ProcessExchange& exchange() const { return environment().processes().exchange(); }
  bool toFile(std::size_t index, int& file) const {
    std::uint32_t number = 0;
    if (!isOpen() || !toIndex(index, kMostFiles, number)) return false;
    file = static_cast<int>(number);
    return thread().isOpen(file);
  }
  bool toId(std::size_t index, std::uint32_t& id) const { return isOpen() && Call::toId(index, id); }
  // A key, or an array of keys, and whether they are shared.
  bool toRequest(std::size_t index, ProcessRequest& request) const {
    bool isArray = false;
    napi_is_array(env(), at(index), &isArray);
    std::uint32_t count = 1;
    if (isArray) napi_get_array_length(env(), at(index), &count);
    request.keys.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      napi_value key = at(index);
      if (isArray && napi_get_element(env(), at(index), i, &key) != napi_ok) return false;
      if (!readKey(env(), key, request.keys[i])) return false;
    }
    return toBoolean(index + 1, request.shared);
  }
  void answer(const FileError& error) const {
    exchange().fault = static_cast<std::int32_t>(error.fault);
    exchange().number = error.number;
    tellReady();
  }
  napi_value answer(const ProcessOutcome& outcome) const {
    exchange().token = outcome.token;
    exchange().id = static_cast<std::int32_t>(outcome.id);
    exchange().answer = static_cast<std::int32_t>(outcome.status);
    exchange().abandoned = outcome.abandoned ? 1 : 0;
    answer(outcome.error);
    return nullptr;
  }
  // Also keeps the event loop alive as long as acquisitions wait.
  void tellReady() const {
    exchange().ready = thread().hasReady() ? 1 : 0;
    environment().keepAlive(env(), Environment::Reason::kProcessLocks, thread().pending() > 0);
  }
  napi_value refuseRequest() const { return refuse("expected an open file, keys, and how to acquire them"); }
};

// processExchange(numbers): `numbers` is all of a SharedArrayBuffer, laid out as ProcessExchange
napi_value processExchange(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 1);
  napi_typedarray_type type{};
  std::size_t length = 0;
  void* data = nullptr;
  if (!call.started() || call.isOpen() || !isInSharedMemory(env, call.at(0)) ||
      napi_get_typedarray_info(env, call.at(0), &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array || length * sizeof(double) != sizeof(ProcessExchange)) {
    return call.refuse("expected a shared Float64Array of the right size, once");
  }
  call.environment().processes().start(call.environment().participant(), {env, call.at(0)});
  return nullptr;
}

// processOpen(path, title, files): the file's number, or kNotOpened and the exchange says why
napi_value processOpen(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 3);
  std::string path;
  std::string title;
  std::uint32_t files = 0;
  if (!call.isOpen() || !call.toText(0, path) || !call.toText(1, title) ||
      !call.toIndex(2, kMostSpread + 1, files))
    return call.refuse("expected a path, a title, and a number of files or 0");
  FileError error;
  const int file = call.thread().open(path, title, files, error);
  call.answer(error);
  return call.integer(file < 0 ? kNotOpened : file);
}

// processClose(file)
napi_value processClose(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 1);
  int file = 0;
  if (!call.toFile(0, file)) return call.refuse("expected an open file");
  call.thread().close(file);
  return nullptr;
}

// processAttempt(file, keys, shared)
napi_value processAttempt(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 3);
  int file = 0;
  ProcessRequest& request = call.environment().processes().request();
  if (!call.toFile(0, file) || !call.toRequest(1, request)) return call.refuseRequest();
  return call.answer(call.thread().attempt(file, request));
}

// processAcquireSync(file, keys, shared, timeout): if it would never end, each thread of the cycle and the key that it waits for
napi_value processAcquireSync(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 4);
  int file = 0;
  ProcessRequest& request = call.environment().processes().request();
  if (!call.toFile(0, file) || !call.toRequest(1, request) || !call.toDouble(3, request.timeout))
    return call.refuseRequest();
  request.mayGiveUp = request.timeout < std::numeric_limits<double>::infinity();
  const ProcessOutcome outcome = call.environment().acquireSync(env, file, request);
  // Node-API refuses all calls of a thread that is being ended.
  call.answer(outcome);
  if (outcome.cycle.empty()) return nullptr;
  const Napi::Array cycle = Napi::Array::New(env);
  std::uint32_t next = 0;
  for (const ProcessBlocked& blocked : outcome.cycle) {
    cycle.Set(next++, Napi::Number::New(env, blocked.threadId));
    cycle.Set(next++, toKey(env, blocked.key));
  }
  return cycle;
}

// processAcquireAsync(file, keys, shared, mayGiveUp)
napi_value processAcquireAsync(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 4);
  int file = 0;
  ProcessRequest& request = call.environment().processes().request();
  if (!call.toFile(0, file) || !call.toRequest(1, request) || !call.toBoolean(3, request.mayGiveUp))
    return call.refuseRequest();
  return call.answer(call.thread().acquireAsync(file, request));
}

// processCancel(id, last): false if it is not pending. A grant that was not taken yet is given back, unless it is the last
// moment of the acquisition: then false, and takeProcessNews() hands it over.
napi_value processCancel(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 2);
  std::uint32_t id = 0;
  bool last = false;
  if (!call.toId(0, id) || !call.toBoolean(1, last))
    return call.refuse("expected the number of an acquisition, and whether it is its last moment");
  const bool cancelled = call.thread().cancel(id, last);
  call.tellReady();
  return call.boolean(cancelled);
}

// processRelease(id): false if nothing is held under that number
napi_value processRelease(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 1);
  std::uint32_t id = 0;
  if (!call.toId(0, id)) return call.refuse("expected the number of an acquisition");
  const bool released = call.thread().release(id);
  call.tellReady();
  return call.boolean(released);
}

// takeProcessNews(): whether an acquisition was granted, or failed; the exchange says which
napi_value takeProcessNews(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 0);
  if (!call.isOpen()) return call.refuseRequest();
  ProcessOutcome outcome;
  const bool any = call.thread().take(&outcome, 1) == 1;
  if (any) {
    call.answer(outcome);
  } else {
    call.tellReady();
  }
  return call.boolean(any);
}

// processInspect(file): of each holder and each waiter, what `entry` below has, one after the other
napi_value processInspect(napi_env env, napi_callback_info info) {
  const ProcessCall call(env, info, 1);
  int file = 0;
  if (!call.toFile(0, file)) return call.refuse("expected an open file");
  FileError error;
  const std::vector<ProcessThread::Seen> all = call.thread().inspect(file, error);
  call.answer(error);
  const Napi::Array result = Napi::Array::New(env);
  std::uint32_t next = 0;
  for (const ProcessThread::Seen& seen : all) {
    const Napi::HandleScope scope(env);
    const Napi::Value entry[] = {
        Napi::String::New(env, std::to_string(seen.byte)),
        seen.key.empty() ? static_cast<Napi::Value>(Napi::Env(env).Undefined()) : toKey(env, seen.key),
        Napi::Boolean::New(env, seen.shared),
        Napi::Boolean::New(env, seen.waits),
        Napi::Number::New(env, seen.pid),
        Napi::Number::New(env, seen.threadId),
        Napi::Number::New(env, seen.since),
        // undefined: this process.
        seen.here ? static_cast<Napi::Value>(Napi::Env(env).Undefined()) : Napi::String::New(env, seen.title),
    };
    for (const Napi::Value& value : entry) result.Set(next++, value);
  }
  return result;
}

}  // namespace

void addProcessLocks(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "processExchange", processExchange);
  addFunction(env, exports, "processOpen", processOpen);
  addFunction(env, exports, "processClose", processClose);
  addFunction(env, exports, "processAttempt", processAttempt);
  addFunction(env, exports, "processAcquireSync", processAcquireSync);
  addFunction(env, exports, "processAcquireAsync", processAcquireAsync);
  addFunction(env, exports, "processCancel", processCancel);
  addFunction(env, exports, "processRelease", processRelease);
  addFunction(env, exports, "takeProcessNews", takeProcessNews);
  addFunction(env, exports, "processInspect", processInspect);
}

}  // namespace stripelock
