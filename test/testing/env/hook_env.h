// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// An Env that calls the test before operations on files.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "test/testing/env/forwarding_file.h"
#include "test/testing/threads/gate.h"
#include "varve/env.h"
#include "varve/testing/fault_injection_env.h"

namespace varve::test {

// Calls a function before each operation of `kinds` on a path that contains
// `part`. If the function returns an error, the operation does nothing, and
// returns it. Kinds: kOpenOperation of files, kCreateOperation, kWriteOperation
// (Append), kSyncOperation, kSyncDirectoryOperation, kRenameOperation and
// kLinkOperation (by the source), kRemoveOperation of files.
// Thread-safety: as the function. It is set while no operation runs.
class HookEnv : public EnvWrapper {
 public:
  explicit HookEnv(OperationMask kinds, std::string part = "",
                   Env* target = Env::Default())
      : EnvWrapper(target), kinds_(kinds), part_(std::move(part)) {}

  Status NewSequentialFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<SequentialFile>* file) override {
    return Run(kOpenOperation, path, [&] {
      return target()->NewSequentialFile(path, options, file);
    });
  }
  Status NewRandomAccessFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<RandomAccessFile>* file) override {
    return Run(kOpenOperation, path, [&] {
      return target()->NewRandomAccessFile(path, options, file);
    });
  }
  Status NewWritableFile(const std::string& path, const FileOptions& options,
                         std::unique_ptr<WritableFile>* file) override {
    Status status = Run(kCreateOperation, path, [&] {
      return target()->NewWritableFile(path, options, file);
    });
    if (status.ok() && Concerns(kWriteOperation | kSyncOperation, path)) {
      *file = std::make_unique<File>(this, path, std::move(*file));
    }
    return status;
  }
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override {
    Status status = target()->NewDirectory(path, directory);
    if (status.ok() && Concerns(kSyncDirectoryOperation, path)) {
      *directory = std::make_unique<Dir>(this, path, std::move(*directory));
    }
    return status;
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    return Run(kRenameOperation, from,
               [&] { return target()->RenameFile(from, to); });
  }
  Status LinkFile(const std::string& from, const std::string& to) override {
    return Run(kLinkOperation, from,
               [&] { return target()->LinkFile(from, to); });
  }
  Status RemoveFile(const std::string& path) override {
    return Run(kRemoveOperation, path,
               [&] { return target()->RemoveFile(path); });
  }

  std::function<Status(const std::string& path)> hook;

 protected:
  virtual Status Before(FileOperation /*kind*/, const std::string& path) {
    return hook ? hook(path) : Status::OK();
  }
  virtual void After(FileOperation /*kind*/) {}

 private:
  class File final : public ForwardingFile {
   public:
    File(HookEnv* env, std::string path, std::unique_ptr<WritableFile> target)
        : ForwardingFile(std::move(target)),
          env_(*env),
          path_(std::move(path)) {}
    Status Append(const Slice& data) override {
      return env_.Run(kWriteOperation, path_,
                      [&] { return ForwardingFile::Append(data); });
    }
    Status Sync() override {
      return env_.Run(kSyncOperation, path_,
                      [&] { return ForwardingFile::Sync(); });
    }

   private:
    HookEnv& env_;
    const std::string path_;
  };
  class Dir final : public Directory {
   public:
    Dir(HookEnv* env, std::string path, std::unique_ptr<Directory> target)
        : env_(*env), path_(std::move(path)), target_(std::move(target)) {}
    Status Sync() override {
      return env_.Run(kSyncDirectoryOperation, path_,
                      [&] { return target_->Sync(); });
    }

   private:
    HookEnv& env_;
    const std::string path_;
    const std::unique_ptr<Directory> target_;
  };

  bool Concerns(OperationMask kinds, const std::string& path) const {
    return (kinds_ & kinds) != 0 && path.find(part_) != std::string::npos;
  }
  template <typename Operation>
  Status Run(FileOperation kind, const std::string& path,
             const Operation& operation) {
    if (!Concerns(kind, path)) return operation();
    Status status = Before(kind, path);
    if (!status.ok()) return status;
    status = operation();
    After(kind);
    return status;
  }

  const OperationMask kinds_;
  const std::string part_;
};

}  // namespace varve::test
