// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env that says which files it is about to create.

#include <functional>
#include <memory>
#include <string>

#include "varve/env.h"

namespace varve::test {

// Calls a function before each call that creates a file, or renames one if that
// was requested too. Where the function returns an error, it is the call's.
class HookEnv final : public EnvWrapper {
 public:
  explicit HookEnv(bool hooks_renames)
      : EnvWrapper(Env::Default()), hooks_renames_(hooks_renames) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = hook ? hook(path) : Status::OK();
    if (!status.ok()) return status;
    return target()->NewWritableFile(path, options, file);
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    Status status = hooks_renames_ && hook ? hook(from) : Status::OK();
    if (!status.ok()) return status;
    return target()->RenameFile(from, to);
  }

  std::function<Status(const std::string& path)> hook;

 private:
  const bool hooks_renames_;
};

}  // namespace varve::test
