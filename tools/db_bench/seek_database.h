// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A database that the seek benchmarks fill and read, with the bytes that were
// written to it.
//
// Keys are numbers of 8 bytes and padding up to 16 bytes. The workload's keys
// begin at zero. Live keys come after all of them and are in each database,
// so that a seek past the workload's keys has a result.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "tools/db_bench/engine_adapter.h"
#include "tools/db_bench/table_watch.h"
#include "tools/db_bench/workload_data.h"
#include "util/base/random.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

constexpr size_t kSeekKeyBytes = 16;
constexpr uint64_t kLiveKeys = uint64_t{1} << 56;
// No key. A seek has this result if there is no entry.
constexpr uint64_t kNoKey = UINT64_MAX;

// Writes and reads of one thread. After an error all operations do nothing.
// Thread-safety: owned by one thread.
class KeyWriter {
 public:
  KeyWriter(Engine* engine, size_t value_bytes, uint64_t seed);
  KeyWriter(const KeyWriter&) = delete;
  KeyWriter& operator=(const KeyWriter&) = delete;

  void Put(uint64_t key);
  void Delete(uint64_t key);
  // Deletes the keys in [begin, end), one by one if the engine has no range
  // deletions.
  void DeleteRange(uint64_t begin, uint64_t end);

  EngineSession* session() { return session_.get(); }
  // The bytes of keys and values that were put or deleted.
  uint64_t user_bytes() const { return user_bytes_; }
  const Status& status() const { return status_; }

 private:
  void Commit(size_t bytes);

  std::unique_ptr<EngineSession> session_;
  const std::string bytes_;
  ValueSource values_;
  const size_t value_bytes_;
  uint64_t user_bytes_ = 0;
  Status status_;
};

// Moves of a new iterator.
// Thread-safety: owned by one thread.
class KeyReader {
 public:
  explicit KeyReader(EngineSession* session) : cursor_(session->NewCursor()) {}

  // Each creates an iterator, and returns the key found, or kNoKey.
  uint64_t SeekToFirst();
  uint64_t SeekToLast();
  uint64_t Seek(uint64_t key);
  // Returns the key after the current one.
  uint64_t Next();
  Status status() const { return cursor_->status(); }

 private:
  uint64_t Found(bool valid) const;

  std::unique_ptr<EngineCursor> cursor_;
};

// Thread-safety: the writer is owned by one thread.
class SeekDatabase {
 public:
  // `engine` must outlive this.
  SeekDatabase(Engine* engine, const EngineConfig& config, uint64_t seed)
      : engine_(engine), config_(config), seed_(seed) {}
  SeekDatabase(const SeekDatabase&) = delete;
  SeekDatabase& operator=(const SeekDatabase&) = delete;
  ~SeekDatabase() { Close(); }

  // Replaces the database by a new one.
  Status Create();
  // Removes it.
  Status Destroy();

  Engine* engine() { return engine_; }
  const std::string& path() const { return config_.path; }
  KeyWriter& writer() { return *writer_; }
  std::unique_ptr<KeyWriter> MakeWriter() {
    return std::make_unique<KeyWriter>(engine_, config_.value_bytes, ++seed_);
  }

  void PutLiveKeys(uint64_t count);
  // Writes the memtables to tables. An engine that cannot is reopened. Flush
  // and Reopen return false on an error; then there may be no writer.
  bool Flush();
  bool Reopen();
  void Compact();

  TableCounts tables() { return watch_.Counts(); }
  // The bytes that writer() wrote.
  uint64_t user_bytes() const;
  // Returns the first error so far.
  Status status() const;
  void Fail(const Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  void Close();

  Engine* const engine_;
  const EngineConfig config_;
  uint64_t seed_;
  bool open_ = false;
  TableWatch watch_;
  std::unique_ptr<KeyWriter> writer_;
  // Of writers before the last reopening.
  uint64_t earlier_user_bytes_ = 0;
  Status status_;
};

// Overwrites live keys at a steady rate, from a thread.
class LoadThread {
 public:
  // REQUIRES: live_keys > 0, puts_per_second > 0.
  LoadThread(SeekDatabase* database, uint64_t live_keys,
             uint64_t puts_per_second);
  LoadThread(const LoadThread&) = delete;
  LoadThread& operator=(const LoadThread&) = delete;
  ~LoadThread() { Stop(); }

  // Ends it and returns the bytes that it wrote.
  uint64_t Stop();

 private:
  SeekDatabase* const database_;
  const std::unique_ptr<KeyWriter> writer_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace varve
