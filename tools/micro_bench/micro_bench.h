// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The topics of micro_bench, and what they share.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experimental/ablation.h"
#include "util/base/random.h"
#include "varve/db.h"

namespace varve::bench {

// Each registers the benchmarks of a topic.
void AddFamilies();
void AddFollowers();
void AddIndexedBatch();
void AddKeyFold();
void AddLocks();
void AddMemory();
void AddMemTable();
void AddSnapshots();
void AddStatistics();
void AddStreams();
void AddLargeBatches();
void AddTables();
void AddTraces();
void AddTransactions();

// ---- What topics share ------------------------------------------------------

// An empty directory, which is removed with the object.
class TempDirectory {
 public:
  TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ends the program if the status is not OK.
void Must(const Status& status);

// The same random values in every run.
constexpr uint64_t kSeed = 1;

// Returns bytes that do not compress.
std::string RandomValue(Random* random, size_t bytes);

// Return the bytes of this process that are in memory, and those that it has
// allocated on the heap and not freed.
double ResidentBytes();
double HeapBytes();

// Threads with small stacks that have each run a function, and live until the
// object is destroyed.
class ThreadsThatStay {
 public:
  // `run` calls its argument when it has done its part, and must then return.
  // There may be fewer threads than `count`, if no more can be had.
  ThreadsThatStay(size_t count,
                  std::function<void(const std::function<void()>&)> run);
  ThreadsThatStay(const ThreadsThatStay&) = delete;
  ThreadsThatStay& operator=(const ThreadsThatStay&) = delete;
  ~ThreadsThatStay();

  size_t count() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// A small database that is removed with the object.
class BenchDb {
 public:
  explicit BenchDb(const AblationOptions& ablation);
  BenchDb(const BenchDb&) = delete;
  BenchDb& operator=(const BenchDb&) = delete;
  ~BenchDb() = default;

  DB* db() const { return db_.get(); }

 private:
  const TempDirectory directory_;
  std::unique_ptr<DB> db_;
};

// Times of 200 queries, which become the counters min, avg, p95 and max in
// microseconds.
void SetQueryCounters(std::vector<double> micros, benchmark::State* state);

// 1, 2, 8 and 32 threads.
void ForThreads(benchmark::internal::Benchmark* benchmark);
// Of 1, 100, 1,000 and 4,000 threads, 200 times.
void ForThreadsThatStay(benchmark::internal::Benchmark* benchmark);

// ---- Locks of keys ----------------------------------------------------------

// A million keys of 16 bytes.
const std::vector<std::string>& LockKeys();

enum class LockKeysUsed : uint8_t { kOne, kCold };

// The keys that a thread locks, one after the other.
class LockKeyWalk {
 public:
  // Threads begin far from each other, unless they all use one key.
  LockKeyWalk(LockKeysUsed used, int thread)
      : step_(used == LockKeysUsed::kOne ? 0 : 1),
        at_(step_ * static_cast<size_t>(thread) * 100000) {}
  const std::string& Next() {
    const std::string& key = keys_[at_];
    at_ += step_;
    if (at_ == keys_.size()) at_ = 0;
    return key;
  }

 private:
  const std::vector<std::string>& keys_ = LockKeys();
  const size_t step_;
  size_t at_;
};

// Registers an engine's rows: `locks` locks and unlocks one key at a time,
// `transaction` ten keys at a time.
void RegisterLocks(const char* engine,
                   void (*locks)(benchmark::State&, LockKeysUsed),
                   void (*transaction)(benchmark::State&));

// ---- RocksDB, if this is built with it --------------------------------------

// Point locks of a TransactionDB.
void AddRocksDbLocks();

// GetSnapshot and ReleaseSnapshot, beside the ones of Varve.
void AddRocksDbSnapshots();

// Updates and reads of an indexed batch, beside the ones of Varve.
void AddRocksDbIndexedBatch();

// Optimistic and pessimistic transactions, beside the ones of Varve.
void AddRocksDbTransactions();

// Ingestion and prefixes, beside the ones of Varve.
void AddRocksDbTables();

constexpr int kIdleFamilies = 16;

// Writes batches of 20 updates with values of 1,000 bytes until `total_bytes`
// are written: put(family, key, value) adds an update of families 0 to 14 to
// the batch, and write() writes the batch. Returns the largest size of the log
// files in `directory`, in bytes.
uint64_t WriteBesideIdleFamily(
    const std::string& directory, uint64_t total_bytes,
    const std::function<void(int, const std::string&, const std::string&)>& put,
    const std::function<void()>& write);

// The same on RocksDB, with its default options.
uint64_t RocksDbBesideIdleFamily(const std::string& directory,
                                 uint64_t total_bytes);

}  // namespace varve::bench
