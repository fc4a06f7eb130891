// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A MANIFEST is a log whose records are edits. An edit adds tables to the
// database, removes tables, and sets counters.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/options/level_limit.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/table_properties.h"

namespace varve {

// RocksDB writes this id to tables whose column family it does not know. Ids of
// column families are smaller.
inline constexpr uint32_t kUnknownColumnFamilyId = 0x7FFFFFFF;
inline constexpr uint32_t kMaxColumnFamilyId = kUnknownColumnFamilyId - 1;

// The identity of a table file. Two databases that used a directory one after
// the other may have had tables of the same number.
struct TableIdentity {
  uint64_t file_size = 0;
  std::string smallest;
  std::string largest;
  SequenceNumber largest_sequence = 0;
  bool operator==(const TableIdentity&) const = default;
};

// Times of a table, in seconds since 1970 by the wall clock. 0 if unknown.
struct TableTimes {
  // When the oldest of the tables that the data came from was written. Data
  // keeps it through compactions.
  uint64_t oldest_ancestor_s = 0;
  uint64_t file_creation_s = 0;
};

// What a compaction knew about the entries that it kept. Shared by its outputs.
struct CompactionTrace {
  std::vector<SequenceNumber> snapshots;  // Increasing.
  bool bottommost = false;                // See Compaction::bottommost.

  // Returns whether one of the snapshots that divided the table's entries is
  // not in `live`, which is in increasing order.
  bool AnyReleased(SequenceNumber largest_sequence,
                   const std::vector<SequenceNumber>& live) const {
    const auto end =
        std::lower_bound(snapshots.begin(), snapshots.end(), largest_sequence);
    return !std::includes(live.begin(), live.end(), snapshots.begin(), end);
  }
};

// The metadata of a table file.
struct FileMetaData {
  // As in the MANIFEST. Immutable after the file is added to a version.
  uint64_t number = 0;
  uint64_t file_size = 0;
  // The internal keys of the first and last entry. A range deletion counts as
  // an entry at its begin, and as an entry with kRangeEndTrailer at its end.
  std::string smallest;
  std::string largest;
  SequenceNumber smallest_sequence = 0;
  SequenceNumber largest_sequence = 0;
  // The bytes of the file after the data blocks; 0 if unknown.
  uint64_t tail_size = 0;
  // True for a file from LevelDB's MANIFEST, which has no sequence numbers.
  bool sequences_unknown = false;
  TableTimes times;
  // Fields of the edit that Varve does not use but preserves. Each is a varint
  // tag and length-prefixed bytes.
  std::string other_fields;

  // Guarded by the DB mutex.
  int refs = 0;  // The number of versions that hold it.
  bool being_compacted = false;
  // A collector of properties, or the program, wants it compacted. In the
  // MANIFEST.
  bool marked_for_compaction = false;

  // Bytes of entries (keys and values) that were kept only because the snapshot
  // with this number sees them. In memory only. Immutable after the file is
  // added to a version, like the next two members.
  std::map<SequenceNumber, uint64_t> kept_bytes;
  // Bytes of entries that were kept only for one or more snapshots. In memory
  // only.
  uint64_t hidden_bytes = 0;
  // Approximate bytes in older tables that the file's deletions hid when it was
  // written. The MANIFEST stores the part that range deletions hide in deeper
  // levels.
  uint64_t reclaimable_bytes = 0;
  // reclaimable_bytes includes the part of point deletions. In memory only.
  bool points_are_estimated = false;
  // How a compaction wrote the table. In memory only: null for tables of
  // flushes and of earlier sessions.
  std::shared_ptr<const CompactionTrace> trace;

  // The counts of the table's entries, if it was written or opened in this
  // process before it was added to a version. See FindDead.
  DeadEntries dead;

  // For events about the new table. Null once a version has the file.
  std::shared_ptr<const TableProperties> reported;

  // The cached handle of the open table. Reads fill it.
  mutable CachedTableHandle table;

  Slice smallest_user_key() const { return ExtractUserKey(smallest); }
  Slice largest_user_key() const { return ExtractUserKey(largest); }
  // Returns whether the largest user key is the end of a range deletion, and so
  // is not in the table itself.
  bool EndIsExclusive() const {
    return ExtractTrailer(largest) == kRangeEndTrailer;
  }
  // Returns the counts of the table's entries. They are known if the table was
  // written by this process or is open. Takes no lock and reads no file.
  DeadEntries FindDead() const {
    if (dead.known) return dead;
    // acquire: as in TableCache::Find.
    const Table* const open = table.table.load(std::memory_order_acquire);
    return open != nullptr ? DeadEntriesOf(open->properties()) : dead;
  }
  // Returns the times of the MANIFEST. Those that it does not have are the ones
  // of the table's properties, if the table is open. Without a time of its own,
  // the file is as old as its data. Takes no lock and reads no file.
  TableTimes FindTimes() const {
    TableTimes found = times;
    if (found.oldest_ancestor_s != 0 && found.file_creation_s != 0) {
      return found;
    }
    // acquire: as in TableCache::Find.
    const Table* const open = table.table.load(std::memory_order_acquire);
    if (open != nullptr) {
      const PropertiesBlock& properties = open->properties();
      if (found.oldest_ancestor_s == 0) {
        found.oldest_ancestor_s = properties.creation_time_s;
      }
      if (found.file_creation_s == 0) {
        found.file_creation_s = properties.file_creation_time_s;
      }
    }
    if (found.file_creation_s == 0) {
      found.file_creation_s = found.oldest_ancestor_s;
    }
    return found;
  }
  TableIdentity Identity() const {
    return {file_size, smallest, largest, largest_sequence};
  }
  TableFile table_file() const {
    return TableFile{number, file_size, tail_size, largest_sequence};
  }
};

// The tables of each level.
using LevelFiles = std::array<std::vector<FileMetaData*>, kNumLevels>;

// A change of the set of tables and of the database's counters.
// Thread-safety: thread-compatible.
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
  // Whether it names no new table, and removes some or drops the family.
  bool OnlyRemoves() const {
    return new_files_.empty() &&
           (!deleted_files_.empty() || drops_column_family_);
  }
  const std::string& db_id() const { return db_id_; }
  void SetDbId(std::string id) { db_id_ = std::move(id); }
  // The name of the rules by which keys are folded; empty if they are not. See
  // KeyFoldingName.
  const std::string& key_folding() const { return key_folding_; }
  void SetKeyFolding(std::string name) { key_folding_ = std::move(name); }

  // Whether each log number in this MANIFEST belongs to a log that was created
  // before. RocksDB also writes the numbers of logs that never existed.
  bool logs_are_files() const { return logs_are_files_; }
  void SetLogsAreFiles() { logs_are_files_ = true; }

  // Set if the database was closed: the last sequence number in its logs. Valid
  // only in the last edit of a MANIFEST.
  std::optional<SequenceNumber> logs_end() const { return logs_end_; }
  void SetLogsEnd(SequenceNumber sequence) { logs_end_ = sequence; }

  // Set if the family's updates went to tables: the sequence number of the last
  // one. No log before the log number has a later one. Unlike the numbers of
  // the tables, it does not fall when a compaction drops entries.
  std::optional<SequenceNumber> tables_end() const { return tables_end_; }
  void SetTablesEnd(SequenceNumber sequence) { tables_end_ = sequence; }

  // The column family to which the edit applies, and whether the edit adds or
  // drops it.
  uint32_t column_family() const { return column_family_; }
  void SetColumnFamily(uint32_t id) { column_family_ = id; }
  bool adds_column_family() const { return column_family_name_.has_value(); }
  const std::string& column_family_name() const { return *column_family_name_; }
  void AddColumnFamily(std::string name) {
    column_family_name_ = std::move(name);
  }
  bool drops_column_family() const { return drops_column_family_; }
  void DropColumnFamily() { drops_column_family_ = true; }
  std::optional<uint32_t> max_column_family() const {
    return max_column_family_;
  }
  void SetMaxColumnFamily(uint32_t id) { max_column_family_ = id; }
  // If the edit belongs to an atomic group, the number of the group's edits
  // that follow.
  std::optional<uint32_t> atomic_group_remaining() const {
    return atomic_group_remaining_;
  }
  void SetAtomicGroupRemaining(uint32_t count) {
    atomic_group_remaining_ = count;
  }

  // Appends the encoded edit in the format of RocksDB 7.8.
  void EncodeTo(std::string* out) const;
  // Decodes an edit. Returns Corruption, or NotSupported with the name of a
  // feature that the edit's column family has. After NotSupported, the edit is
  // complete except for that feature and its tables. The message does not have
  // the file's name.
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
  std::optional<SequenceNumber> tables_end_;
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
