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

// Counts the bytes that are written or reserved through it, but for logs, as if
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
    ~File() override { Close().IgnoreError(); }
    Status Append(const Slice& data) override {
      if (!env_->GrowTo(path_, size_ + data.size())) {
        failure_ = Status::FromErrno("write " + path_, ENOSPC);
      }
      if (!failure_.ok()) return failure_;
      size_ += data.size();
      return ForwardingFile::Append(data);
    }
    Status Reserve(uint64_t offset, uint64_t length) override {
      if (env_->GrowTo(path_, offset + length)) return Status::OK();
      return Status::FromErrno("allocate " + path_, ENOSPC);
    }
    Status Close() override {
      if (!is_closed_) env_->Cut(path_, size_);
      is_closed_ = true;
      return ForwardingFile::Close();
    }

   private:
    SmallDeviceEnv* const env_;
    const std::string path_;
    uint64_t size_ = 0;
    bool is_closed_ = false;
    Status failure_;
  };

  bool GrowTo(const std::string& path, uint64_t end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t& size = sizes_[path];
    if (end <= size) return true;
    if (used_ + (end - size) > capacity_) return false;
    used_ += end - size;
    size = end;
    return true;
  }
  // The file may have been removed.
  void Cut(const std::string& path, uint64_t end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (end < sizes_[path]) ResizeLocked(path, end);
  }
  void Resize(const std::string& path, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ResizeLocked(path, bytes);
  }
  void ResizeLocked(const std::string& path, uint64_t bytes) {
    used_ += bytes - sizes_[path];
    sizes_[path] = bytes;
  }

  std::mutex mutex_;
  uint64_t capacity_;
  uint64_t used_ = 0;
  std::map<std::string, uint64_t> sizes_;
};

}  // namespace varve::test
