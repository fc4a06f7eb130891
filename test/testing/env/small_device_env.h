// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An environment whose device has only so much space.

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "test/testing/env/forwarding_file.h"
#include "varve/env.h"

namespace varve::test {

// Counts the bytes of files that are written through it, but for logs, as if
// theirs had been allocated before. Linked files are not supported.
// Thread-safe.
class SmallDeviceEnv : public EnvWrapper {
 public:
  SmallDeviceEnv(Env* target, uint64_t capacity_bytes)
      : EnvWrapper(target), capacity_(capacity_bytes) {}

  uint64_t UsedBytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_;
  }
  void SetCapacity(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    capacity_ = bytes;
  }

  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    std::unique_ptr<WritableFile> made;
    Status status = target()->NewWritableFile(path, options, &made);
    if (!status.ok()) return status;
    if (path.ends_with(".log")) {
      *file = std::move(made);
      return status;
    }
    Resize(path, 0);
    *file = std::make_unique<File>(this, path, std::move(made));
    return status;
  }
  Status RemoveFile(const std::string& path) override {
    Status status = target()->RemoveFile(path);
    if (status.ok()) Resize(path, 0);
    return status;
  }
  Status RenameFile(const std::string& source,
                    const std::string& destination) override {
    Status status = target()->RenameFile(source, destination);
    if (!status.ok()) return status;
    Resize(destination, 0);
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[destination] = std::exchange(sizes_[source], 0);
    return status;
  }

 private:
  class File final : public ForwardingFile {
   public:
    File(SmallDeviceEnv* env, std::string path,
         std::unique_ptr<WritableFile> target)
        : ForwardingFile(std::move(target)),
          env_(env),
          path_(std::move(path)) {}
    Status Append(const Slice& data) override {
      if (!env_->Take(path_, data.size())) {
        failure_ = Status::FromErrno("write " + path_, ENOSPC);
      }
      return failure_.ok() ? ForwardingFile::Append(data) : failure_;
    }

   private:
    SmallDeviceEnv* const env_;
    const std::string path_;
    Status failure_;
  };

  bool Take(const std::string& path, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (used_ + bytes > capacity_) return false;
    used_ += bytes;
    sizes_[path] += bytes;
    return true;
  }
  void Resize(const std::string& path, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_ += bytes - sizes_[path];
    sizes_[path] = bytes;
  }

  std::mutex mutex_;
  uint64_t capacity_;
  uint64_t used_ = 0;
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace varve::test
