// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The writes of a crash test's threads, and the contents that must result.
//
// Each thread has keys of its own and numbers its writes. The seed, the cycle,
// the thread and the number alone determine a write. So the checker needs only
// the number that each thread has reached. The oracle, a file in shared memory
// that outlives the worker, has these numbers.
//
// All threads but the last write batches. The last two entries of each batch
// let the checker verify a moment of the database:
//   seal    the number, how many keys the thread has then, and a sum over them
//   clock   the number of each thread, by the oracle, before the batch began.
//   If
//           the batch is present, all those writes must be: no write may appear
//           without the writes that had returned before it.
// The last thread calls Put, Merge, Delete and DeleteRange, for one entry each.
//
// In some runs, a compaction filter removes or changes values that ask for it.
// The writes of such values are known, but not when a compaction meets them. So
// they have keys of their own, which seals do not count, and a reader may find
// them before or after the filter.
//
// The keys are spread over 1 to 8 column families. So most batches update
// several of them, and a batch that was torn shows in the seals. Other families
// are created and dropped meanwhile.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "varve/column_family.h"
#include "varve/db.h"
#include "varve/options.h"
#include "varve/write_batch.h"

namespace varve::crash_test {

inline constexpr int kThreads = 5;
inline constexpr int kSealedThreads = kThreads - 1;
inline constexpr uint64_t kKeysPerThread = 400;

// The number of writes of each thread.
using Counts = std::array<uint64_t, kThreads>;

// A worker's progress, in a file in shared memory.
struct Progress {
  struct PerThread {
    std::atomic<uint64_t> begun;         // The write in progress.
    std::atomic<uint64_t> acknowledged;  // The last write that returned OK.
    std::atomic<uint64_t> safe;  // The last write that no kill may undo.
  };
  PerThread threads[kThreads];
  // Other operations that the worker completed and checked.
  std::atomic<uint64_t> moments;
  std::atomic<uint64_t> checkpoints;
  std::atomic<uint64_t> flushes;
  std::atomic<uint64_t> compactions;
  std::atomic<uint64_t> drops;

  Counts Acknowledged() const;
  // From now on, these writes and all before them must survive a kill.
  void RaiseSafe(const Counts& counts);
};

// Maps the file, and creates it if it does not exist. Ends the process on an
// error.
Progress* MapProgress(const std::string& path);

using Entries = std::map<std::string, std::string>;

// What the threads of a run write, all of its cycles alike.
bool HasMerges(uint64_t seed);
bool HasFilter(uint64_t seed);

// The expected entries of one thread.
class ThreadModel {
 public:
  ThreadModel(uint64_t seed, int thread)
      : seed_(seed),
        thread_(thread),
        has_merges_(HasMerges(seed)),
        has_filter_(HasFilter(seed) && thread < kSealedThreads) {}

  // The number of the last write.
  uint64_t last() const { return last_; }
  // Without the seal and the clock.
  const Entries& entries() const { return entries_; }
  // Those that the filter may remove or change, as they were written.
  const Entries& filtered() const { return filtered_; }
  std::string Seal() const;

  // Continues from this state.
  void Restore(uint64_t last, const Entries& entries);
  // Applies write number last() + 1 of the cycle. Adds it to `batch`, without
  // seal and clock, if `batch` is not null.
  void Apply(uint64_t cycle, WriteBatch* batch);

 private:
  void Put(const std::string& key, const std::string& value);
  void Merge(const std::string& key, const std::string& operand);
  void Delete(const std::string& key);
  void DeleteRange(const std::string& begin, const std::string& end);
  void UpdateFiltered(uint64_t choice, WriteBatch* batch);

  const uint64_t seed_;
  const int thread_;
  const bool has_merges_;
  const bool has_filter_;
  uint64_t last_ = 0;
  Entries entries_;
  Entries filtered_;
  uint64_t sum_ = 0;  // Over the entries, in any order.
};

std::string KeyOf(int thread, uint64_t index);  // index < kKeysPerThread
std::string SealKey(int thread);
std::string ClockKey(int thread);
std::string MakeClock(const Counts& counts);

// The contents of the database at one moment.
struct Moment {
  Entries entries[kThreads];
  Entries filtered[kThreads];
  std::string seals[kSealedThreads];
  Counts clocks[kSealedThreads] = {};
  Counts last = {};  // By the seals; 0 for the thread without one.

  // Returns whether this can be the same moment, read after `earlier` was: the
  // filter may have removed or changed some entries in between.
  bool Follows(const Moment& earlier) const;
  // The minimum number that the last thread must have reached.
  uint64_t LeastOfUnsealed() const;
};

// Returns whether a reader may find the entries `found` if `written` were
// written: each that the filter leaves alone as it is.
bool MayBeFiltered(const Entries& written, const Entries& found);

struct CyclePlan;

// A database with its families.
struct OpenedDb {
  ~OpenedDb();

  std::unique_ptr<DB> db;
  // The families that have keys. The default one comes first.
  std::vector<ColumnFamilyHandle*> families;
  std::vector<ColumnFamilyHandle*> passing;  // Those that come and go.
};
// Opens it with all of its families, and creates those that are missing.
Status OpenDatabase(const CyclePlan& plan, const std::string& path,
                    bool read_only, OpenedDb* opened);

// Adds the updates of `batch` to *spread, each in the family of its key. A
// range deletion is added in all families.
void Spread(const WriteBatch& batch,
            const std::vector<ColumnFamilyHandle*>& families,
            WriteBatch* spread);

// Each of the following functions returns the first error, or an empty string.

using Iterators = std::vector<std::unique_ptr<Iterator>>;
// Creates an iterator over each family.
std::string MakeIterators(const OpenedDb& opened, const ReadOptions& options,
                          Iterators* iterators);
// Reads all entries of the iterators, forwards or backwards.
std::string ReadMoment(const Iterators& iterators, bool backwards,
                       Moment* moment);
std::string ReadMoment(const OpenedDb& opened, const ReadOptions& options,
                       bool backwards, Moment* moment);
// Checks seals and clocks, and that each sealed thread is at `least` or later.
std::string CheckMoment(const Moment& moment, const Counts& least);
// Looks up all keys that may exist.
std::string CheckLookups(const OpenedDb& opened, const ReadOptions& options,
                         const Moment& expected);

// The settings that vary between cycles.
struct CyclePlan {
  Options options;
  bool disable_wal = false;  // In all writes.
  int families = 1;          // The same in all cycles of a seed.
  std::string names;         // The settings that differ from the default.

  // Returns whether each acknowledged write survives the death of the process.
  bool KeepsAll() const { return !disable_wal && !options.manual_wal_flush; }
};
CyclePlan PlanCycle(uint64_t seed, uint64_t cycle);

// Returns the path of a checkpoint. The worker uses two names in turn.
std::string CheckpointPath(const std::string& directory, int which);

// The worker: writes, reads, flushes, compacts and creates checkpoints in
// `directory`/db until it is killed. On an error it prints the error to stderr
// and exits with status 1.
[[noreturn]] void Work(const std::string& directory, uint64_t seed,
                       uint64_t cycle);

}  // namespace varve::crash_test
