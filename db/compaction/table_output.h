// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "db/compaction/range_tombstone_estimate.h"
#include "db/filter/job_filter.h"
#include "db/version/version_edit.h"
#include "table/block/range_tombstone_set.h"
#include "table/block/table_options.h"
#include "table/build/table_builder.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/rate_limiter.h"
#include "varve/status.h"

namespace varve {

// Returns what the options of a family say of its tables. `compression` is
// the table's. The comparator, the prefix_extractor, which may change, and what
// the table says of itself are not set.
TableBuilderOptions TableFormOf(const Options& options,
                                CompressionType compression);

// Returns an identity for one session of a database, from open to close, in
// RocksDB's form: 20 digits to the base of 36. RocksDB identifies a table by it
// and the file's number. Without it, some RocksDB readers confuse the cached
// blocks of two tables.
std::string NewSessionIdentity();

// The settings shared by all tables that a column family writes.
struct TableOutputContext {
  std::string db_path;
  Env* env = nullptr;
  const Options* options = nullptr;
  // The options' as of the job's begin; theirs may change.
  std::shared_ptr<const SliceTransform> prefix_extractor;
  const InternalKeyComparator* comparator = nullptr;
  std::string db_identity;
  std::string session_identity;
  uint32_t family_id = 0;
  std::string family_name = "default";
  // The tables are written under temporary names and renamed later.
  bool temporary_names = false;
  Logger* info_log = nullptr;  // May be null.
  // Whether the tables must survive a power failure.
  bool sync = true;

  // Returns a description of a job for JobFilter. `stop` may be null.
  JobFilter::Job FilterJob(TableFileCreationReason reason, int output_level,
                           const std::atomic<bool>* stop) const;
};

// A table file being written, with the metadata of what is in it.
// Thread-safety: owned by one thread at a time.
class TableOutput {
 public:
  TableOutput(const TableOutputContext& context, uint64_t number,
              CompressionType compression, RateLimiter::Priority priority);
  TableOutput(const TableOutput&) = delete;
  TableOutput& operator=(const TableOutput&) = delete;

  // Sets the version and the level that the table is for. Without them, the
  // bytes that its deletions hide in deeper levels are not estimated. The
  // version must outlive Finish.
  void SetPlace(const Version* version, int level) {
    version_ = version;
    level_ = level;
  }
  // Sets when the data was first written to a table, in seconds since 1970. The
  // default, and the meaning of 0, is the current time.
  void SetOldestAncestorTime(uint64_t time_s) {
    oldest_ancestor_time_s_ = time_s;
  }
  Status Open();
  // REQUIRES: Open was OK; keys rise.
  Status Add(const Slice& internal_key, const Slice& value);
  // Counts an entry of that many bytes as kept for snapshots only. If
  // `snapshot` is not kMaxSequenceNumber, that snapshot alone keeps it.
  void CountHidden(SequenceNumber snapshot, uint64_t bytes) {
    metadata_.hidden_bytes += bytes;
    if (snapshot == kMaxSequenceNumber) return;
    metadata_.kept_bytes[snapshot] += bytes;
  }
  // REQUIRES: Open was OK; all entries were added; the deletions are in the
  // order that TableBuilder requires.
  void AddRangeTombstone(const RangeTombstone& tombstone);
  // Writes the rest, syncs and closes the file. Returns Corruption if the file
  // is not as long as the bytes written. REQUIRES: an entry was added.
  Status Finish();
  // Closes and removes the file.
  void Abandon();

  uint64_t EstimatedFileSize() const { return builder_->EstimatedFileSize(); }
  // Complete after Finish.
  const FileMetaData& metadata() const { return metadata_; }

 private:
  // Requests the bytes written since the last call from the rate limiter, if
  // there are at least `least_bytes`.
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
