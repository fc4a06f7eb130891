// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env that counts syncs by what is synced.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "env/file_names.h"
#include "test/testing/env/forwarding_file.h"
#include "varve/env.h"

namespace varve::test {

// Thread-safety: thread-safe.
class CountingSyncEnv final : public EnvWrapper {
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

  explicit CountingSyncEnv(Env* target) : EnvWrapper(target) {}

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Count* const count = CountOf(path);
    if (refuses_manifests && count == &manifests_) {
      return Status::FromErrno("open " + path, ENOSPC);
    }
    Status status = target()->NewWritableFile(path, options, file);
    if (status.ok()) {
      *file = std::make_unique<File>(std::move(*file), count);
    }
    return status;
  }
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    Status status = target()->NewDirectory(path, directory);
    if (status.ok()) {
      *directory = std::make_unique<Dir>(std::move(*directory), &directories_);
    }
    return status;
  }

  Counts counts() const {
    return {tables_, logs_, manifests_, directories_, others_};
  }

  // No MANIFEST can be created, for lack of space.
  std::atomic<bool> refuses_manifests = false;

 private:
  using Count = std::atomic<uint64_t>;

  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<WritableFile> file, Count* count)
        : ForwardingFile(std::move(file)), count_(count) {}
    Status Sync() override {
      ++*count_;
      return ForwardingFile::Sync();
    }

   private:
    Count* const count_;
  };
  class Dir final : public Directory {
   public:
    Dir(std::unique_ptr<Directory> target, Count* count)
        : target_(std::move(target)), count_(count) {}
    Status Sync() override {
      ++*count_;
      return target_->Sync();
    }

   private:
    const std::unique_ptr<Directory> target_;
    Count* const count_;
  };

  Count* CountOf(const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    uint64_t number = 0;
    FileType type;
    if (!ParseFileName(name, &number, &type)) return &others_;
    if (type == FileType::kTable) return &tables_;
    if (type == FileType::kWal) return &logs_;
    return type == FileType::kManifest ? &manifests_ : &others_;
  }

  Count tables_ = 0;
  Count logs_ = 0;
  Count manifests_ = 0;
  Count directories_ = 0;
  Count others_ = 0;
};

}  // namespace varve::test
