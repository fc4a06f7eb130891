// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "db/compaction/range_tombstone_estimate.h"
#include "db/version/version_edit.h"
#include "table/block/range_tombstone_set.h"
#include "table/block/table_options.h"
#include "table/build/table_builder.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/rate_limiter.h"
#include "varve/status.h"

namespace varve {

// Names the time from one opening of a database to its end, in RocksDB's form:
// 20 digits to the base of 36. RocksDB tells a table from all others by this
// and the file's number; without it, some of its readers take one table's
// cached blocks for another's.
std::string NewSessionIdentity();

// When the oldest of the tables was written that the file's data has come from,
// in seconds since 1970, as the MANIFEST has it; 0 if unknown.
uint64_t OldestAncestorTime(const FileMetaData& file);

// What all tables that a database writes have in common.
struct TableOutputContext {
  std::string db_path;
  Env* env = nullptr;
  const Options* options = nullptr;
  const InternalKeyComparator* comparator = nullptr;
  std::string db_identity;
  std::string session_identity;
  // The tables are written under the names of temporary files, to be renamed.
  bool temporary_names = false;
  // Whether the tables must survive a power failure.
  bool sync = true;
};

// A table file being written, with the metadata of what is in it.
// Thread-safety: owned by one thread at a time.
class TableOutput {
 public:
  TableOutput(const TableOutputContext& context, uint64_t number,
              CompressionType compression, RateLimiter::Priority priority);
  TableOutput(const TableOutput&) = delete;
  TableOutput& operator=(const TableOutput&) = delete;

  // Which level of the version the table is for, so that what its deletions
  // hide further down can be estimated; unknown without. The version must
  // outlive Finish.
  void SetPlace(const Version* version, int level) {
    version_ = version;
    level_ = level;
  }
  // When the data was first written to a table, in seconds since 1970. Now, if
  // it is 0 or not told.
  void SetOldestAncestorTime(uint64_t time_s) {
    oldest_ancestor_time_s_ = time_s;
  }
  Status Open();
  // REQUIRES: Open was OK; keys rise.
  Status Add(const Slice& internal_key, const Slice& value);
  // Notes that the last entry is there for snapshots only; for this one's sake,
  // if it is not kMaxSequenceNumber.
  void CountHidden(SequenceNumber snapshot, uint64_t bytes) {
    metadata_.hidden_bytes += bytes;
    if (snapshot == kMaxSequenceNumber) return;
    metadata_.kept_bytes[snapshot] += bytes;
  }
  // REQUIRES: Open was OK; all entries were added; the deletions rise as
  // TableBuilder wants it.
  void AddRangeTombstone(const RangeTombstone& tombstone);
  // Writes the rest, syncs and closes the file. Corruption: the file is not as
  // long as what was written. REQUIRES: something was added.
  Status Finish();
  // Closes and removes the file.
  void Abandon();

  uint64_t EstimatedFileSize() const { return builder_->EstimatedFileSize(); }
  // Complete after Finish.
  const FileMetaData& metadata() const { return metadata_; }

 private:
  // Waits until what was written may have been, from `least_bytes` on.
  void Charge(uint64_t least_bytes);
  void CountSequence(SequenceNumber sequence);
  // REQUIRES: the metadata has the range of keys.
  void EstimateHiddenBytes();
  Status CheckSize();

  const TableOutputContext& context_;
  const std::string path_;
  const CompressionType compression_;
  const RateLimiter::Priority priority_;
  FileMetaData metadata_;
  const Version* version_ = nullptr;
  int level_ = 0;
  uint64_t oldest_ancestor_time_s_ = 0;
  RangeTombstoneEstimate tombstone_estimate_;
  std::string tombstones_end_;  // An internal key; empty if there are none.
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<TableBuilder> builder_;
  uint64_t charged_bytes_ = 0;  // To the rate limiter.
};

}  // namespace varve
