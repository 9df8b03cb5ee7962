// The lock files of one Node.js environment (core/files/process_file.h), and the addon's functions for them.

#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "core/files/process_file.h"

namespace stripelock {

// The files that a thread has open. The index is the number.
class ProcessFiles {
 public:
  std::size_t add(std::shared_ptr<ProcessFile> file);
  // nullptr if no file is open under the number.
  std::shared_ptr<ProcessFile> at(std::size_t number) const {
    return number < files_.size() ? files_[number] : nullptr;
  }
  void close(std::size_t number);
  // Call it when the thread ends. Closes all files.
  void end();

 private:
  std::vector<std::shared_ptr<ProcessFile>> files_;
};

// Adds the functions that lib/engine/native/process-locks.ts calls.
void addProcessLocks(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
