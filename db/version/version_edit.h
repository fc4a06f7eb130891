// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A MANIFEST is a log whose records are edits: what was added to and removed
// from the set of tables, and the counters that go with it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/options/level_limit.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Tells a table file from others of its number, which two databases that were
// one after the other in a directory may have.
struct TableIdentity {
  uint64_t file_size = 0;
  std::string smallest;
  std::string largest;
  SequenceNumber largest_sequence = 0;
  bool operator==(const TableIdentity&) const = default;
};

// A table file of the database.
struct FileMetaData {
  // As the MANIFEST has it; immutable once the file is in a version.
  uint64_t number = 0;
  uint64_t file_size = 0;
  // Internal keys, of the first and last entry. A range deletion counts as an
  // entry at its begin, and as one with kRangeEndTrailer at its end.
  std::string smallest;
  std::string largest;
  SequenceNumber smallest_sequence = 0;
  SequenceNumber largest_sequence = 0;
  // Of file_size, what stands behind the data blocks; 0 if unknown.
  uint64_t tail_size = 0;
  // From LevelDB's MANIFEST, which has no sequence numbers.
  bool sequences_unknown = false;
  // Fields of the edit that Varve has no use for and hands on: varint tag and
  // length-prefixed bytes, one after the other.
  std::string other_fields;

  // Guarded by the DB mutex.
  int refs = 0;  // Versions that hold it.
  bool being_compacted = false;

  // Bytes of entries (keys and values) that were written only because the
  // snapshot of this number sees them. In memory only: it outlives nothing.
  // Immutable once the file is in a version.
  std::map<SequenceNumber, uint64_t> kept_bytes;
  // The same of entries for readers of snapshots only, of one or several.
  uint64_t hidden_bytes = 0;
  // Bytes of deeper levels that its deletions hid when it was written, about.
  // The MANIFEST keeps of it what range deletions hide. Immutable once the file
  // is in a version.
  uint64_t reclaimable_bytes = 0;

  // The open table and more; filled by reads.
  mutable TableMemo table;

  Slice smallest_user_key() const { return ExtractUserKey(smallest); }
  Slice largest_user_key() const { return ExtractUserKey(largest); }
  // The largest user key is where range deletions end, and is no more the
  // table's.
  bool EndIsExclusive() const {
    return ExtractTrailer(largest) == kRangeEndTrailer;
  }
  TableIdentity Identity() const {
    return {file_size, smallest, largest, largest_sequence};
  }
  TableFile table_file() const {
    return TableFile{number, file_size, tail_size, largest_sequence};
  }
};

class VersionEdit {
 public:
  void SetComparatorName(const Slice& name) { comparator_ = name.ToString(); }
  void SetLogNumber(uint64_t number) { log_number_ = number; }
  void SetPrevLogNumber(uint64_t number) { prev_log_number_ = number; }
  void SetMinLogNumberToKeep(uint64_t number) {
    min_log_number_to_keep_ = number;
  }
  void SetNextFileNumber(uint64_t number) { next_file_number_ = number; }
  void SetLastSequence(SequenceNumber sequence) { last_sequence_ = sequence; }
  void AddFile(int level, FileMetaData file) {
    new_files_.emplace_back(level, std::move(file));
  }
  void RemoveFile(int level, uint64_t number) {
    deleted_files_.emplace_back(level, number);
  }

  const std::optional<std::string>& comparator() const { return comparator_; }
  std::optional<uint64_t> log_number() const { return log_number_; }
  std::optional<uint64_t> prev_log_number() const { return prev_log_number_; }
  std::optional<uint64_t> min_log_number_to_keep() const {
    return min_log_number_to_keep_;
  }
  std::optional<uint64_t> next_file_number() const { return next_file_number_; }
  std::optional<SequenceNumber> last_sequence() const { return last_sequence_; }
  const std::vector<std::pair<int, FileMetaData>>& new_files() const {
    return new_files_;
  }
  std::vector<std::pair<int, FileMetaData>>* mutable_new_files() {
    return &new_files_;
  }
  const std::vector<std::pair<int, uint64_t>>& deleted_files() const {
    return deleted_files_;
  }
  const std::string& db_id() const { return db_id_; }
  void SetDbId(std::string id) { db_id_ = std::move(id); }
  // How keys are folded; empty if they are not. See KeyFoldingName.
  const std::string& key_folding() const { return key_folding_; }
  void SetKeyFolding(std::string name) { key_folding_ = std::move(name); }

  // That each log number of this MANIFEST is a log's, which was made before.
  // RocksDB names logs that there never were.
  bool logs_are_files() const { return logs_are_files_; }
  void SetLogsAreFiles() { logs_are_files_ = true; }

  // That the database was closed, and its logs go up to this number. Counts
  // only in the last edit of a MANIFEST.
  std::optional<SequenceNumber> logs_end() const { return logs_end_; }
  void SetLogsEnd(SequenceNumber sequence) { logs_end_ = sequence; }

  // The column family that the edit is about, and what it does to it.
  uint32_t column_family() const { return column_family_; }
  bool adds_column_family() const { return column_family_name_.has_value(); }
  const std::string& column_family_name() const { return *column_family_name_; }
  bool drops_column_family() const { return drops_column_family_; }
  std::optional<uint32_t> max_column_family() const {
    return max_column_family_;
  }
  void SetMaxColumnFamily(uint32_t id) { max_column_family_ = id; }
  // Edits still to come of an atomic group, if it is of one.
  std::optional<uint32_t> atomic_group_remaining() const {
    return atomic_group_remaining_;
  }

  // Appends the edit's bytes, as RocksDB 7.8 writes them.
  void EncodeTo(std::string* out) const;
  // Corruption, or NotSupported naming the feature, without the file's name.
  Status DecodeFrom(const Slice& bytes);

 private:
  Status DecodeField(uint32_t tag, Slice* input);
  Status DecodeNewFile(uint32_t tag, Slice* input);

  std::optional<std::string> comparator_;
  std::optional<uint64_t> log_number_;
  std::optional<uint64_t> prev_log_number_;
  std::optional<uint64_t> min_log_number_to_keep_;
  std::optional<uint64_t> next_file_number_;
  std::optional<SequenceNumber> last_sequence_;
  std::optional<SequenceNumber> logs_end_;
  std::optional<uint32_t> max_column_family_;
  std::optional<uint32_t> atomic_group_remaining_;
  std::optional<std::string> column_family_name_;
  uint32_t column_family_ = 0;
  bool drops_column_family_ = false;
  std::string db_id_;
  std::string key_folding_;
  bool logs_are_files_ = false;
  std::vector<std::pair<int, FileMetaData>> new_files_;
  std::vector<std::pair<int, uint64_t>> deleted_files_;
};

}  // namespace varve
