#include "node/web_locks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "node/call.h"

namespace stripelock {

void WebLockThread::start(Participant& participant, Napi::Float64Array numbers) {
  numbers_ = Napi::Persistent(numbers);
  exchange_ = static_cast<WebLockExchange*>(static_cast<void*>(numbers.Data()));
  client_ = std::make_unique<WebLockClient>(participant);
}

namespace {

static_assert(static_cast<std::int32_t>(WebLockHow::kWait) == kWebLockWait);
static_assert(static_cast<std::int32_t>(WebLockHow::kIfAvailable) == kWebLockIfAvailable);
static_assert(static_cast<std::int32_t>(WebLockHow::kSteal) == kWebLockSteal);
static_assert(static_cast<std::int32_t>(WebLockAnswer::kHeld) == kWebLockHeld);
static_assert(static_cast<std::int32_t>(WebLockAnswer::kPending) == kWebLockPending);
static_assert(static_cast<std::int32_t>(WebLockAnswer::kUnavailable) == kWebLockUnavailable);

// A string argument, as UTF-16 code units.
class Name {
 public:
  // Returns false if the value is not a string.
  bool read(napi_env env, napi_value value) {
    std::size_t length = 0;
    if (napi_get_value_string_utf16(env, value, few_.data(), few_.size(), &length) != napi_ok) return false;
    view_ = {few_.data(), length};
    // If room for one more unit is left, the string was not truncated.
    if (length + 1 < few_.size()) return true;
    napi_get_value_string_utf16(env, value, nullptr, 0, &length);
    many_.resize(length);
    napi_get_value_string_utf16(env, value, many_.data(), length + 1, &length);
    view_ = many_;
    return true;
  }
  std::u16string_view view() const { return view_; }

 private:
  std::array<char16_t, 128> few_;
  std::u16string many_;
  std::u16string_view view_;
};

std::optional<std::uint64_t> managerIn(const WebLockExchange& exchange) {
  const double manager = exchange.manager;
  if (!(manager >= 0 && manager < static_cast<double>(WebLockName::kMostManagers))) return std::nullopt;
  return static_cast<std::uint64_t>(manager);
}

// A call whose numbers are in the thread's exchange.
class WebLockCall : public Call {
 public:
  using Call::Call;

  bool isOpen() const { return environment().named().started(); }
  WebLockClient& client() const { return environment().named().client(); }
  WebLockExchange& exchange() const { return environment().named().exchange(); }
  // Writes the answer into the exchange. Also keeps the event loop alive as long as requests wait.
  napi_value answer(std::int32_t answer) const {
    exchange().answer = answer;
    exchange().ready = client().hasReady() ? 1 : 0;
    environment().keepAlive(env(), Environment::Reason::kWebLocks, client().waiting() > 0);
    return nullptr;
  }
  napi_value refuseCall() const { return refuse("expected a name, and valid numbers in the exchange"); }
};

// webLockExchange(numbers): `numbers` covers a whole SharedArrayBuffer that is laid out as a WebLockExchange
napi_value webLockExchange(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 1);
  napi_typedarray_type type{};
  std::size_t length = 0;
  std::size_t offset = 0;
  const bool valid =
      call.started() && !call.isOpen() &&
      napi_get_typedarray_info(env, call.at(0), &type, &length, nullptr, nullptr, &offset) == napi_ok &&
      type == napi_float64_array && offset == 0 && length * sizeof(double) == sizeof(WebLockExchange) &&
      isInSharedMemory(env, call.at(0));
  if (!valid) return call.refuse("expected a shared Float64Array of the size of an exchange, once");
  call.environment().named().start(call.environment().participant(), {env, call.at(0)});
  return nullptr;
}

// webLockIssue(): a number for a new manager
napi_value webLockIssue(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(static_cast<double>(WebLocks::instance().issueManager()));
}

// webLockIsManager(number): whether a manager has this number
napi_value webLockIsManager(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  double number = -1;
  if (!call.toDouble(0, number)) return call.refuse("expected a number");
  const bool integer = number >= 0 && number < static_cast<double>(WebLockName::kMostManagers) &&
                       number == static_cast<double>(static_cast<std::uint64_t>(number));
  return call.boolean(integer && WebLocks::instance().isManager(static_cast<std::uint64_t>(number)));
}

// webLockRequest(name)
napi_value webLockRequest(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 1);
  if (!call.isOpen()) return call.refuseCall();
  WebLockExchange& exchange = call.exchange();
  const std::optional<std::uint64_t> manager = managerIn(exchange);
  // Another thread could write to the exchange meanwhile, so each number is read once.
  const auto modeNumber = static_cast<std::uint32_t>(exchange.mode);
  const auto howNumber = static_cast<std::uint32_t>(exchange.how);
  Name name;
  if (!manager || modeNumber >= kModes || howNumber > kWebLockSteal || !name.read(env, call.at(0)))
    return call.refuseCall();
  const auto mode = static_cast<Mode>(modeNumber);
  const auto how = static_cast<WebLockHow>(howNumber);
  if (how == WebLockHow::kSteal && isJoint(mode)) return call.refuse("only an exclusive lock can be stolen");
  const WebLockName key(*manager, name.view());
  const WebLockClient::Started started = call.client().request(key.view(), mode, how);
  exchange.ticket = static_cast<std::int32_t>(started.ticket);
  return call.answer(static_cast<std::int32_t>(started.answer));
}

// webLockCancel()
napi_value webLockCancel(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 0);
  if (!call.isOpen()) return call.refuseCall();
  const bool cancelled = call.client().cancel(static_cast<std::uint32_t>(call.exchange().ticket));
  return call.answer(cancelled ? kWebLockCancelled : kWebLockNotPending);
}

// webLockRelease()
napi_value webLockRelease(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 0);
  if (!call.isOpen()) return call.refuseCall();
  const bool kept = call.client().release(static_cast<std::uint32_t>(call.exchange().ticket));
  return call.answer(kept ? kWebLockReleased : kWebLockNotKept);
}

// takeWebLockNews(out): the number of entries, plus kMore. Each entry in `out` has a ticket, and the bits of its news
napi_value takeWebLockNews(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 1);
  std::int32_t* out = nullptr;
  std::size_t length = 0;
  if (!call.isOpen() || !call.toInts(0, out, length) || length < kEntryInts)
    return call.refuse("expected an Int32Array with room for an entry");
  std::array<WebLockClient::News, kBatch> news;
  const std::size_t room = std::min(news.size(), length / kEntryInts);
  const std::size_t count = call.client().take(news.data(), room);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t* const entry = out + kEntryInts * i;
    entry[kEntryId] = static_cast<std::int32_t>(news[i].ticket);
    entry[kEntryDetail] = (news[i].granted ? kNewsGranted : 0) | (news[i].stolen ? kNewsStolen : 0);
  }
  call.answer(0);
  return call.batch(count, room);
}

// webLockQuery(): [name, mode, held, threadId, ...], four values for each request of the exchange's manager. For each
// name, the holders come first, then the queue
napi_value webLockQuery(napi_env env, napi_callback_info info) {
  const WebLockCall call(env, info, 0);
  const std::optional<std::uint64_t> manager = call.isOpen() ? managerIn(call.exchange()) : std::nullopt;
  if (!manager) return call.refuseCall();
  const Napi::Array result = Napi::Array::New(env);
  std::uint32_t next = 0;
  for (const WebLocks::NameInfo& info : WebLocks::instance().query(*manager)) {
    const Napi::HandleScope nameScope(env);
    const Napi::Value name = Napi::String::New(env, info.name);
    for (const WebLocks::Info& request : info.requests) {
      const Napi::HandleScope scope(env);
      result.Set(next++, name);
      result.Set(next++, Napi::Number::New(env, static_cast<double>(request.mode)));
      result.Set(next++, Napi::Boolean::New(env, request.held));
      result.Set(next++, Napi::Number::New(env, request.threadId));
    }
  }
  return result;
}

// webLockSize(): the number of names that are held or waited for, in all managers
napi_value webLockSize(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(static_cast<double>(WebLocks::instance().size()));
}

}  // namespace

void addWebLocks(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "webLockExchange", webLockExchange);
  addFunction(env, exports, "webLockIssue", webLockIssue);
  addFunction(env, exports, "webLockIsManager", webLockIsManager);
  addFunction(env, exports, "webLockRequest", webLockRequest);
  addFunction(env, exports, "webLockCancel", webLockCancel);
  addFunction(env, exports, "webLockRelease", webLockRelease);
  addFunction(env, exports, "takeWebLockNews", takeWebLockNews);
  addFunction(env, exports, "webLockQuery", webLockQuery);
  addFunction(env, exports, "webLockSize", webLockSize);
}

}  // namespace stripelock
