#include "node/process_locks.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/table/layout.h"
#include "node/call.h"
#include "node/exact_keys.h"

namespace stripelock {

std::size_t ProcessFiles::add(std::shared_ptr<ProcessFile> file) {
  std::size_t number = 0;
  while (number < files_.size() && files_[number]) ++number;
  if (number == files_.size()) files_.emplace_back();
  files_[number] = std::move(file);
  return number;
}

void ProcessFiles::close(std::size_t number) {
  if (const std::shared_ptr<ProcessFile> file = std::exchange(files_[number], nullptr)) file->close();
}

void ProcessFiles::end() {
  for (std::size_t number = 0; number < files_.size(); ++number) close(number);
}

namespace {

std::shared_ptr<ProcessFile> toFile(const Call& call) {
  std::uint32_t number = 0;
  if (!call.started() || !call.toIndex(0, kMostTables, number)) return nullptr;
  return call.environment().processes().at(number);
}

// { fault, number, part, owner, mode }
Napi::Object faultOf(Napi::Env env, const FileError& error) {
  Napi::Object fault = Napi::Object::New(env);
  fault.Set("fault", Napi::Number::New(env, static_cast<double>(error.fault)));
  fault.Set("number", Napi::Number::New(env, error.number));
  fault.Set("part", Napi::Number::New(env, error.part));
  fault.Set("owner", Napi::Number::New(env, error.owner));
  fault.Set("mode", Napi::Number::New(env, error.mode));
  return fault;
}

// processOpen(path, name, title, files, limit, access): [the number of the file in this thread, the number of the file's
// table, the header of the table's memory, the largest number of keys, the holders' tokens by stripe, the limit]; or
// the fault. Returns undefined if the host does not allow external memory in an ArrayBuffer
napi_value processOpen(napi_env env, napi_callback_info info) {
  const Call call(env, info, 6);
  std::string path;
  std::string name;
  std::string title;
  FileShape shape;
  std::uint32_t access = 0;
  if (!call.started() || !call.toText(0, path) || !call.toText(1, name) || !call.toText(2, title) ||
      !call.toIndex(3, kMostSpread, shape.files) || !call.toIndex(4, kMostPermits, shape.limit) ||
      !call.toIndex(5, static_cast<std::uint32_t>(FileAccess::kAll), access))
    return call.refuse(
        "expected a path, a name, a title, a number of files or 0, a limit or 0, and an access");
  FileError error;
  const std::shared_ptr<ProcessFile> file =
      ProcessFile::open(path, title, shape, static_cast<FileAccess>(access), error);
  if (!file) return faultOf(env, error);
  // Each thread has a separate view of the memory, which stays until the last view is garbage-collected. JavaScript
  // needs only the header, because its fast path takes no keys of files.
  constexpr std::size_t kHeader = kHeaderInts * sizeof(std::int32_t);
  auto keep = std::make_unique<std::shared_ptr<ProcessFile>>(file);
  const auto collected = [](napi_env, void*, void* kept) {
    delete static_cast<std::shared_ptr<ProcessFile>*>(kept);
  };
  napi_value buffer = nullptr;
  napi_value words = nullptr;
  napi_value tokens = nullptr;
  constexpr std::size_t kTokens = ProcessFile::kTokenBytes;
  const bool isAllowed = napi_create_external_arraybuffer(env, file->shared(), kTokens + kHeader, collected,
                                                          keep.get(), &buffer) == napi_ok;
  if (isAllowed) static_cast<void>(keep.release());
  if (!isAllowed ||
      napi_create_typedarray(env, napi_int32_array, kHeaderInts, buffer, kTokens, &words) != napi_ok ||
      napi_create_typedarray(env, napi_biguint64_array, ProcessFile::kMostKeys, buffer, 0, &tokens) !=
          napi_ok) {
    file->close();
    return nullptr;
  }
  Environment& environment = call.environment();
  const std::int32_t table =
      environment.open({env, words}, ProcessFile::kMostKeys, true, file->limit(), name, file);
  const Napi::Array result = Napi::Array::New(env, 6);
  result.Set(0U, Napi::Number::New(env, static_cast<double>(environment.processes().add(file))));
  result.Set(1U, Napi::Number::New(env, table));
  result.Set(2U, Napi::Value(env, words));
  result.Set(3U, Napi::Number::New(env, ProcessFile::kMostKeys));
  result.Set(4U, Napi::Value(env, tokens));
  result.Set(5U, Napi::Number::New(env, file->limit()));
  return result;
}

// processClose(file)
napi_value processClose(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t number = 0;
  if (!toFile(call) || !call.toIndex(0, kMostTables, number)) return call.refuse("expected an open file");
  call.environment().processes().close(number);
  return nullptr;
}

// processPlace(file, key): the byte of the key, in the form that processInspect() returns
napi_value processPlace(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  const std::shared_ptr<ProcessFile> file = toFile(call);
  std::string key;
  if (!file || !readKey(env, call.at(1), key)) return call.refuse("expected an open file and a key");
  return Napi::String::New(env, std::to_string(file->byteOf(key)));
}

// processInspect(file): [{ place, key, shared, waits, pid, threadId, since, title, note }], an object for each holder and
// each waiter; or the fault. `key` and `note` are missing if unknown, and so is `title` for this process
napi_value processInspect(napi_env environment, napi_callback_info info) {
  const Call call(environment, info, 1);
  const std::shared_ptr<ProcessFile> file = toFile(call);
  if (!file) return call.refuse("expected an open file");
  const Napi::Env env = environment;
  FileError error;
  const std::vector<ProcessPage::Seen> all = file->inspect(error);
  if (error) return faultOf(env, error);
  const Napi::Array result = Napi::Array::New(env, all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Napi::HandleScope scope(env);
    const ProcessPage::Seen& seen = all[i];
    Napi::Object use = Napi::Object::New(env);
    use.Set("place", Napi::String::New(env, std::to_string(seen.byte)));
    if (!seen.key.empty()) use.Set("key", toKey(env, seen.key));
    use.Set("shared", Napi::Boolean::New(env, seen.shared));
    use.Set("waits", Napi::Boolean::New(env, seen.waits));
    use.Set("pid", Napi::Number::New(env, seen.pid));
    use.Set("threadId", Napi::Number::New(env, seen.threadId));
    use.Set("since", Napi::Number::New(env, seen.since));
    if (!seen.here) use.Set("title", Napi::String::New(env, seen.title));
    if (!seen.note.empty()) use.Set("note", Napi::String::New(env, seen.note));
    result.Set(static_cast<std::uint32_t>(i), use);
  }
  return result;
}

// processHolders(file, key): [{ pid, title }], an object for each holder of the key in another process
napi_value processHolders(napi_env environment, napi_callback_info info) {
  const Call call(environment, info, 2);
  const std::shared_ptr<ProcessFile> file = toFile(call);
  std::string key;
  if (!file || !readKey(environment, call.at(1), key)) return call.refuse("expected an open file and a key");
  const Napi::Env env = environment;
  const Napi::Array result = Napi::Array::New(env);
  for (const ProcessPage::Seen& seen : file->holdersElsewhere(key)) {
    Napi::Object holder = Napi::Object::New(env);
    holder.Set("pid", Napi::Number::New(env, seen.pid));
    holder.Set("title", Napi::String::New(env, seen.title));
    result.Set(result.Length(), holder);
  }
  return result;
}

}  // namespace

void addProcessLocks(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "processOpen", processOpen);
  addFunction(env, exports, "processClose", processClose);
  addFunction(env, exports, "processPlace", processPlace);
  addFunction(env, exports, "processInspect", processInspect);
  addFunction(env, exports, "processHolders", processHolders);
}

}  // namespace stripelock
