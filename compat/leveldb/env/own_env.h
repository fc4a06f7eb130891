// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compat/leveldb/abi.h"
#include "compat/leveldb/own_objects.h"
#include "varve/env.h"

namespace varve::compat {

// An environment of the engine as one of LevelDB's: leveldb::Env::Default() and
// the result of leveldb::NewMemEnv. Databases opened with it use the engine's
// environment directly. Thread-safety: thread-safe.
class OwnEnv final : public OwnObject<OwnEnv, leveldb::Env> {
 public:
  // Uses `files`, which `owner` holds if it is not null, for everything except
  // threads and directories for tests, for which it calls `base` if it is not
  // null.
  OwnEnv(varve::Env* files, std::unique_ptr<varve::Env> owner,
         leveldb::Env* base);
  ~OwnEnv() override;

  // Returns the environment of the engine.
  varve::Env* target() const { return files_; }

  leveldb::Status NewSequentialFile(const std::string& path,
                                    leveldb::SequentialFile** file) override;
  leveldb::Status NewRandomAccessFile(
      const std::string& path, leveldb::RandomAccessFile** file) override;
  leveldb::Status NewWritableFile(const std::string& path,
                                  leveldb::WritableFile** file) override;
  leveldb::Status NewAppendableFile(const std::string& path,
                                    leveldb::WritableFile** file) override;
  bool FileExists(const std::string& path) override;
  leveldb::Status GetChildren(const std::string& path,
                              std::vector<std::string>* names) override;
  leveldb::Status RemoveFile(const std::string& path) override;
  leveldb::Status CreateDir(const std::string& path) override;
  leveldb::Status RemoveDir(const std::string& path) override;
  leveldb::Status GetFileSize(const std::string& path, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& source,
                             const std::string& target) override;
  leveldb::Status LockFile(const std::string& path,
                           leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  void Schedule(void (*function)(void*), void* argument) override;
  void StartThread(void (*function)(void*), void* argument) override;
  leveldb::Status GetTestDirectory(std::string* path) override;
  leveldb::Status NewLogger(const std::string& path,
                            leveldb::Logger** logger) override;
  uint64_t NowMicros() override;
  void SleepForMicroseconds(int duration_us) override;

 private:
  varve::Env* const files_;
  const std::unique_ptr<varve::Env> owner_;
  leveldb::Env* const base_;
};

}  // namespace varve::compat
