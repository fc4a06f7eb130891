// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bounds the space of tables, and the rate at which obsolete ones are removed.
// DBs can share one (DBOptions::sst_file_manager).

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "varve/env.h"
#include "varve/export.h"
#include "varve/status.h"

namespace varve {

// Thread-safety: thread-safe.
class VARVE_EXPORT SstFileManager {
 public:
  virtual ~SstFileManager() = default;

  // Bound for the total size of the DBs' tables, in bytes. A flush or a
  // compaction that would exceed it fails with Status::SpaceLimit
  // (IsSpaceLimit), and the DB is read-only until there is room. 0: none.
  virtual void SetMaxAllowedSpaceUsage(uint64_t max_allowed_space) = 0;
  // Room that a compaction must leave below the bound; otherwise it waits.
  // Default: 0.
  virtual void SetCompactionBufferSize(uint64_t bytes) = 0;
  virtual bool IsMaxAllowedSpaceReached() = 0;
  // Also counts the expected output of running compactions.
  virtual bool IsMaxAllowedSpaceReachedIncludingCompactions() = 0;
  // Returns the bytes of all tables of the DBs.
  virtual uint64_t GetTotalSize() = 0;
  // Returns them by path.
  virtual std::unordered_map<std::string, uint64_t> GetTrackedFiles() = 0;
  // Bytes per second at which obsolete tables are removed. A table larger than
  // 64 MiB is then removed in pieces. 0 or less removes at once. Default: 0.
  virtual int64_t GetDeleteRateBytesPerSecond() = 0;
  virtual void SetDeleteRateBytesPerSecond(int64_t delete_rate) = 0;
  // If more than this part of all bytes waits for removal, files are removed at
  // once. Default: 0.25.
  virtual double GetMaxTrashDBRatio() = 0;
  virtual void SetMaxTrashDBRatio(double ratio) = 0;
  // Returns the bytes that wait for removal.
  virtual uint64_t GetTotalTrashSize() = 0;
};

// Returns a manager of files in `env`.
VARVE_EXPORT std::shared_ptr<SstFileManager> NewSstFileManager(
    Env* env, int64_t rate_bytes_per_sec = 0, double max_trash_db_ratio = 0.25);

}  // namespace varve
