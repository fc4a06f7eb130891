// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A directory that is held open for the duration of one call. Its files are
// found without its path if the Env supports that (DirectoryEnv).
// Thread-safety: one thread.

#include <memory>
#include <string>

#include "varve/env.h"

namespace varve {

class HeldDirectory {
 public:
  HeldDirectory(Env* env, const std::string& path)
      : path_(env->AbsolutePath(path)),
        directory_env_(env->NewDirectoryEnv(path_)),
        env_(directory_env_ != nullptr ? directory_env_.get() : env) {
    // An access by the path returns the same error.
    if (directory_env_ != nullptr) directory_env_->Hold().IgnoreError();
  }

  const std::string& path() const { return path_; }
  Env* env() const { return env_; }

 private:
  const std::string path_;
  const std::unique_ptr<DirectoryEnv> directory_env_;
  Env* const env_;
};

}  // namespace varve
