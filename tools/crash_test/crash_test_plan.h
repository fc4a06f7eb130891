// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What the threads of a crash test write, and what must therefore be there.
//
// Each thread has keys of its own and numbers its writes. A write follows from
// the seed, the cycle, the thread and the number alone, so that who checks
// needs to know only how far a thread came, and that is what the shared memory
// of a file, which outlives the worker, says: the oracle.
//
// All threads but the last write batches, and the last two entries of each
// batch tell whoever reads a moment of the database whether it is whole:
//   seal    the number, how many keys the thread has then, and a sum over them
//   clock   how far each thread had come, by the oracle, before the batch was
//           begun. If it is there, so must all that be: no write without those
//           that had returned before it.
// The last thread calls Put, Delete and DeleteRange, for one entry each.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "varve/db.h"
#include "varve/options.h"
#include "varve/write_batch.h"

namespace varve::crash_test {

inline constexpr int kThreads = 5;
inline constexpr int kSealedThreads = kThreads - 1;
inline constexpr uint64_t kKeysPerThread = 400;

// How far each thread is.
using Counts = std::array<uint64_t, kThreads>;

// What a worker has done, in shared memory of a file.
struct Progress {
  struct PerThread {
    std::atomic<uint64_t> begun;         // Number of the write under way.
    std::atomic<uint64_t> acknowledged;  // Of the last one that returned OK.
    std::atomic<uint64_t> safe;  // Of the last one that no kill may undo.
  };
  PerThread threads[kThreads];
  // What the worker has done besides, and found right.
  std::atomic<uint64_t> moments;
  std::atomic<uint64_t> checkpoints;
  std::atomic<uint64_t> flushes;
  std::atomic<uint64_t> compactions;

  Counts Acknowledged() const;
  // Those writes and all before them survive from now on.
  void RaiseSafe(const Counts& counts);
};

// Maps the file, making it if it is missing. Ends the process on an error.
Progress* MapProgress(const std::string& path);

using Entries = std::map<std::string, std::string>;

// What one thread has written.
class ThreadModel {
 public:
  ThreadModel(uint64_t seed, int thread) : seed_(seed), thread_(thread) {}

  // The number of the last write.
  uint64_t last() const { return last_; }
  // Without the seal and the clock.
  const Entries& entries() const { return entries_; }
  std::string Seal() const;

  // Goes on from there.
  void Restore(uint64_t last, const Entries& entries);
  // Applies write number last() + 1, as that cycle has it, and adds it to
  // `batch`, without seal and clock, if that is not null.
  void Apply(uint64_t cycle, WriteBatch* batch);

 private:
  void Put(const std::string& key, const std::string& value);
  void Delete(const std::string& key);
  void DeleteRange(const std::string& begin, const std::string& end);

  const uint64_t seed_;
  const int thread_;
  uint64_t last_ = 0;
  Entries entries_;
  uint64_t sum_ = 0;  // Over the entries, the same in any order.
};

std::string KeyOf(int thread, uint64_t index);  // index < kKeysPerThread
std::string SealKey(int thread);
std::string ClockKey(int thread);
std::string MakeClock(const Counts& counts);

// What the database holds at one moment.
struct Moment {
  Entries entries[kThreads];
  std::string seals[kSealedThreads];
  Counts clocks[kSealedThreads] = {};
  Counts last = {};  // By the seals; 0 for the thread that has none.

  bool operator==(const Moment&) const = default;
  // The least that the last thread must have done.
  uint64_t LeastOfUnsealed() const;
};

// Each of the following returns what is wrong; empty if nothing is.

// Reads all that the iterator gives, from first to last or backwards.
std::string ReadMoment(Iterator* iterator, bool backwards, Moment* moment);
// Checks seals and clocks, and that each sealed thread is at `least` or behind.
std::string CheckMoment(const Moment& moment, const Counts& least);
// Looks up all keys that there may be.
std::string CheckLookups(DB* db, const ReadOptions& options,
                         const Moment& expected);

// What a cycle does in its own way.
struct CyclePlan {
  Options options;
  bool disable_wal = false;  // In all writes.
  std::string names;         // What differs from the default, to be printed.

  // Whether what returned survives the death of the process at once.
  bool KeepsAll() const { return !disable_wal && !options.manual_wal_flush; }
};
CyclePlan PlanCycle(uint64_t seed, uint64_t cycle);

// Where a worker makes its checkpoints: under two names in turn.
std::string CheckpointPath(const std::string& directory, int which);

// The worker: writes, reads, flushes, compacts and makes checkpoints in
// `directory`/db until it is killed, or something is wrong: then it says so to
// stderr and ends with status 1.
[[noreturn]] void Work(const std::string& directory, uint64_t seed,
                       uint64_t cycle);

}  // namespace varve::crash_test
