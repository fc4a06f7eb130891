// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The sizes of the tables of all DBs that share a manager, and the removal of
// their obsolete tables at a bounded rate. A table that waits for removal has
// another name: its own with kTrashSuffix. The next Open of the database
// removes files of such names, if a process dies before.
//
// One thread removes the tables that wait, oldest first, and pauses after each
// for as long as its size takes by the rate. It does not pause when a table
// finds no room. Tables are removed whole: a file may have other hard links, so
// none is truncated.
//
// Thread-safety: thread-safe. The mutex is not held while files are accessed.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/base/mutex.h"
#include "util/threads/rate_limiter.h"
#include "util/threads/thread_pool.h"
#include "varve/env.h"
#include "varve/sst_file_manager.h"
#include "varve/status.h"

namespace varve {

class SstFileManagerImpl final : public SstFileManager {
 public:
  static constexpr const char* kTrashSuffix = ".trash";

  // `clock` measures the pauses.
  SstFileManagerImpl(int64_t delete_rate, double max_trash_ratio,
                     std::unique_ptr<RateLimiterClock> clock);
  // REQUIRES: no DB uses it.
  ~SstFileManagerImpl() override;

  // Casts any SstFileManager: all are SstFileManagerImpl.
  static SstFileManagerImpl* Of(SstFileManager* manager) {
    return static_cast<SstFileManagerImpl*>(manager);
  }

  void SetMaxAllowedSpaceUsage(uint64_t max_allowed_space) override;
  void SetCompactionBufferSize(uint64_t bytes) override;
  bool IsMaxAllowedSpaceReached() override;
  bool IsMaxAllowedSpaceReachedIncludingCompactions() override;
  uint64_t GetTotalSize() override;
  std::unordered_map<std::string, uint64_t> GetTrackedFiles() override;
  int64_t GetDeleteRateBytesPerSecond() override;
  void SetDeleteRateBytesPerSecond(int64_t delete_rate) override;
  double GetMaxTrashDBRatio() override;
  void SetMaxTrashDBRatio(double ratio) override;
  uint64_t GetTotalTrashSize() override;

  // ---- For DBs; see TableSpace ----

  // Counts a table. A path that is counted already is counted anew.
  void Add(const std::string& path, uint64_t bytes) VARVE_EXCLUDES(mutex_);
  // Ends that, if the path is counted.
  void Forget(const std::string& path) VARVE_EXCLUDES(mutex_);
  // Returns whether the bound permits so many bytes more. If not, tables that
  // wait are removed without pauses.
  bool HasRoom(uint64_t bytes) VARVE_EXCLUDES(mutex_);
  // Reserves room for a compaction's output. Returns false, and reserves
  // nothing, if there is not enough.
  bool Reserve(uint64_t bytes) VARVE_EXCLUDES(mutex_);
  void Unreserve(uint64_t bytes) VARVE_EXCLUDES(mutex_);
  // Removes a table now, or renames it and removes it later. `env` must live
  // until Finish was called for it. An error is the first step's.
  Status Remove(Env* env, const std::string& path) VARVE_EXCLUDES(mutex_);
  // Removes the tables of this Env and directory that wait, and forgets all
  // tables there. Waits for removals there that have begun.
  void Finish(Env* env, const std::string& directory) VARVE_EXCLUDES(mutex_);

 private:
  struct Trash {
    Env* env;
    std::string path;
    uint64_t bytes;
  };

  void Run() VARVE_EXCLUDES(mutex_);
  // Releases the mutex while the file is removed.
  void RemoveTrashLocked(const Trash& trash) VARVE_REQUIRES(mutex_);
  void PauseLocked(uint64_t bytes) VARVE_REQUIRES(mutex_);
  void ForgetLocked(const std::string& path) VARVE_REQUIRES(mutex_);
  bool FitsLocked(uint64_t bytes) const VARVE_REQUIRES(mutex_);
  bool MayWaitLocked(uint64_t bytes) const VARVE_REQUIRES(mutex_);

  const std::unique_ptr<RateLimiterClock> clock_;
  mutable Mutex mutex_;
  CondVar wake_;     // Ends a pause.
  CondVar removed_;  // A file was removed.
  uint64_t max_bytes_ VARVE_GUARDED_BY(mutex_) = 0;
  uint64_t compaction_buffer_ VARVE_GUARDED_BY(mutex_) = 0;
  int64_t delete_rate_ VARVE_GUARDED_BY(mutex_);
  double max_trash_ratio_ VARVE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, uint64_t> tables_ VARVE_GUARDED_BY(mutex_);
  uint64_t total_bytes_ VARVE_GUARDED_BY(mutex_) = 0;  // Of tables_.
  uint64_t reserved_bytes_ VARVE_GUARDED_BY(mutex_) = 0;
  std::deque<Trash> trash_ VARVE_GUARDED_BY(mutex_);
  uint64_t trash_bytes_ VARVE_GUARDED_BY(mutex_) =
      0;  // With those removed now.
  std::vector<const Trash*> removing_ VARVE_GUARDED_BY(mutex_);
  bool is_running_ VARVE_GUARDED_BY(mutex_) = false;
  bool is_hurried_ VARVE_GUARDED_BY(mutex_) = false;
  bool is_ending_ VARVE_GUARDED_BY(mutex_) = false;
  ThreadPool pool_{{.name = "varve:trash"}};
};

}  // namespace varve
