// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env that counts syncs by what is synced.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "env/file_names.h"
#include "test/testing/env/hook_env.h"
#include "varve/env.h"

namespace varve::test {

// Thread-safety: thread-safe.
class CountingSyncEnv final : public HookEnv {
 public:
  struct Counts {
    uint64_t tables = 0;
    uint64_t logs = 0;
    uint64_t manifests = 0;
    uint64_t directories = 0;
    uint64_t others = 0;

    Counts operator-(const Counts& before) const {
      return {tables - before.tables, logs - before.logs,
              manifests - before.manifests, directories - before.directories,
              others - before.others};
    }
  };

  explicit CountingSyncEnv(Env* target)
      : HookEnv(kCreateOperation | kSyncOperation | kSyncDirectoryOperation, "",
                target) {}

  Counts counts() const {
    return {tables_, logs_, manifests_, directories_, others_};
  }

  // No MANIFEST can be created, for lack of space.
  std::atomic<bool> refuses_manifests = false;

 private:
  using Count = std::atomic<uint64_t>;

  Status Before(FileOperation kind, const std::string& path) override {
    Count* const count =
        kind == kSyncDirectoryOperation ? &directories_ : CountOf(path);
    if (kind != kCreateOperation) {
      ++*count;
    } else if (refuses_manifests && count == &manifests_) {
      return Status::FromErrno("open " + path, ENOSPC);
    }
    return Status::OK();
  }

  Count* CountOf(const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    uint64_t number = 0;
    FileKind type;
    if (!ParseFileName(name, &number, &type)) return &others_;
    if (type == FileKind::kTable) return &tables_;
    if (type == FileKind::kWal) return &logs_;
    return type == FileKind::kManifest ? &manifests_ : &others_;
  }

  Count tables_ = 0;
  Count logs_ = 0;
  Count manifests_ = 0;
  Count directories_ = 0;
  Count others_ = 0;
};

}  // namespace varve::test
