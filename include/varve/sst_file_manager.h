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

class SstFileManagerImpl;

// See docs/large_databases.md.
// Thread-safety: thread-safe.
// Lifetime: the DBs share its ownership. Only Varve implements it.
class VARVE_EXPORT SstFileManager {
 public:
  virtual ~SstFileManager() = default;

  // Bound for the total size of the DBs' tables, in bytes. A flush that would
  // exceed it fails with Status::SpaceLimit (IsSpaceLimit), and the DB is
  // read-only until there is room; it tries again periodically. A compaction
  // that might exceed it waits until there is room. Logs are not counted. The
  // tables that Open writes from logs, and ingested tables, are counted and not
  // refused. 0: none. Default: 0.
  virtual void SetMaxAllowedSpaceUsage(uint64_t max_allowed_space) = 0;
  // Room in bytes that a compaction must leave below the bound. Default: 0.
  virtual void SetCompactionBufferSize(uint64_t bytes) = 0;
  // Returns whether the tables take as much as the bound allows.
  virtual bool IsMaxAllowedSpaceReached() = 0;
  // Also counts the expected output of running compactions.
  virtual bool IsMaxAllowedSpaceReachedIncludingCompactions() = 0;
  // Returns the bytes of all tables of the DBs that are open for writing, with
  // those that wait for removal.
  virtual uint64_t GetTotalSize() = 0;
  // Returns them by path.
  virtual std::unordered_map<std::string, uint64_t> GetTrackedFiles() = 0;
  // Bytes per second at which obsolete tables are removed, so that the device
  // has time between them. A table that waits is renamed: `.trash` is added to
  // its name. DB::Close removes those that still wait, and Open those of a
  // process that died. 0 or less removes all at once. Default: 0.
  virtual int64_t GetDeleteRateBytesPerSecond() = 0;
  virtual void SetDeleteRateBytesPerSecond(int64_t delete_rate) = 0;
  // If more than this part of all bytes would wait for removal, or the bound is
  // exceeded, tables are removed at once. Default: 0.25.
  virtual double GetMaxTrashDBRatio() = 0;
  virtual void SetMaxTrashDBRatio(double ratio) = 0;
  // Returns the bytes that wait for removal.
  virtual uint64_t GetTotalTrashSize() = 0;

 private:
  friend class SstFileManagerImpl;
  SstFileManager() = default;
};

// Returns a manager. `env` must outlive it; its clock measures the rate.
VARVE_EXPORT std::shared_ptr<SstFileManager> NewSstFileManager(
    Env* env, int64_t rate_bytes_per_sec = 0, double max_trash_db_ratio = 0.25);

}  // namespace varve
