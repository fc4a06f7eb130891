// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/version/manifest_reader.h"
#include "env/file_names.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// What a database directory holds, read and checked. Writing nothing, so
// that a database that is refused is left as it was.
struct RecoveredState {
  RecoveredState() = default;
  RecoveredState(const RecoveredState&) = delete;
  RecoveredState& operator=(const RecoveredState&) = delete;
  ~RecoveredState();  // Unreferences memtables not taken over.

  bool exists = false;  // false: no database is there.
  ManifestState manifest;
  // What the logs held, oldest first, but for what the sink has taken.
  std::vector<MemTable*> memtables;
  SequenceNumber last_sequence = 0;
  // The logs in the directory, rising.
  std::vector<uint64_t> wal_numbers;
  // Names of files that are not the database's: see IsForeignFile.
  std::set<std::string> foreign_files;
  // The logs were seen to lack updates which they have held.
  bool logs_incomplete = false;
  uint64_t largest_file_number = 0;
  std::vector<std::string> old_info_logs;    // Names.
  std::vector<std::string> temporary_files;  // Names of the database's own.
  // The MANIFEST says all there is to say, and the directory holds nothing
  // else: no update in the logs, no file to be removed, one log, which the
  // MANIFEST names.
  bool is_clean = false;
};

// What a recovery without the lock is told and tells: see
// db/recovery/unlocked_recovery.h.
struct UnlockedRead {
  // In: called with the MANIFEST before any table is opened.
  std::function<void(const ManifestState&)> on_manifest;
  // In: the newest log ends in a record that is being written.
  bool tail_is_in_flight = false;

  // Out: what is missing, and may have been removed by a writer, although the
  // recovery succeeded. Empty: nothing.
  std::string inconsistency;
  // Out: the logs that were replayed, rising.
  std::vector<uint64_t> logs;
  // Out: each of them was read to its end, goes on where the one before ended,
  // and is of a form that is never written anew in place.
  bool logs_join = true;
  // Out: the newest log was refused because of its end, and the bytes before.
  uint64_t torn_log = 0;
  uint64_t torn_at = 0;
};

// Takes a memtable that is full, and the reference to it, also on failure.
using MemTableSink = std::function<Status(MemTable*)>;

// Reads MANIFEST, tables' metadata and logs, in two calls, between which the
// caller may refuse the database or prepare for writing tables.
// Thread-safety: owned by one thread.
class Recovery {
 public:
  // All must outlive it. Without `unlocked` the database is locked.
  Recovery(const Options& options, std::string db_path,
           const InternalKeyComparator* comparator, TableCache* table_cache,
           Logger* logger, UnlockedRead* unlocked = nullptr);

  // Reads all but the logs.
  Status ReadTables(RecoveredState* state);
  // Replays the logs into memtables. Hands each memtable that is full to
  // `sink`; keeps them all in memory if there is none. REQUIRES: ReadTables
  // succeeded.
  Status ReplayLogs(RecoveredState* state, MemTableSink sink);

 private:
  struct Entry {
    std::string name;
    uint64_t number;
    FileType type;
  };

  Status ListDirectory(RecoveredState* state);
  // Whether the MANIFEST or CURRENT says that the file is the database's.
  bool IsNamed(const ManifestState& manifest, const Entry& entry) const;
  // Classifies the files that are not named, and takes the foreign ones from
  // the lists.
  void PassForeignFiles(RecoveredState* state);
  // Whether there are tables, or logs that are not empty.
  Status FindData(const RecoveredState& state, bool* has_data) const;
  Status CheckLevels(const RecoveredState& state) const;
  // Whether the MANIFEST has lost edits that took effect.
  Status CheckForLostEdits(const RecoveredState& state);
  // Whether the log that the MANIFEST names is missing. It was made before it
  // was named, unless RocksDB named it.
  Status CheckNamedLog(RecoveredState* state);
  // How many files CheckTables has open at once, at most.
  size_t FilesToOpen() const;
  Status CheckTables(RecoveredState* state);
  // Opens the tables so that a writer may remove them, whatever else is wrong
  // with them.
  void HoldTables(const std::vector<const FileMetaData*>& files);
  // Opens the logs that will be replayed, so that a writer may remove them.
  Status HoldLogs(const RecoveredState& state);
  // Sets UnlockedRead::inconsistency, if it is empty.
  void NoteInconsistency(const std::string& what);
  Status FindSequences(RecoveredState* state);
  Status ScanSequences(const TableFile& file, SequenceNumber* smallest,
                       SequenceNumber* largest);
  Status ReplayAll(RecoveredState* state);
  bool IsClean(const RecoveredState& state) const;
  Status ReplayLog(uint64_t number, RecoveredState* state, bool* stop);
  // Whether the log before was found as long as the record, the first of its
  // log, says that it was; nothing if it does not say.
  std::optional<bool> FoundPredecessor(const Slice& record) const;
  // Whether the logs hold all that they held when the database was closed.
  Status CheckLogsEnd(RecoveredState* state);
  // Whether a whole table that the MANIFEST does not name, nor has given out
  // the number of, holds updates that were not replayed. A flush that was cut
  // off has its updates in a log; a MANIFEST and logs from an older backup have
  // not.
  Status CheckUnknownTables(RecoveredState* state);
  // For updates that are missing. The status with kAbsoluteConsistency, else OK
  // and a line of the log.
  Status MissUpdates(const Status& status, RecoveredState* state);
  Status ApplyBatch(const Slice& record, uint64_t wal_number,
                    RecoveredState* state);
  // Begins a memtable, and hands the one before, if any, to the sink.
  Status AddMemTable(uint64_t wal_number, RecoveredState* state);

  const Options& options_;
  const std::string db_path_;
  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  Logger* const logger_;
  std::vector<Entry> entries_;  // Of the directory, by names of the engine's.
  UnlockedRead* const unlocked_;
  std::map<uint64_t, std::unique_ptr<SequentialFile>> held_logs_;
  bool has_current_ = false;
  size_t manifest_count_ = 0;
  uint64_t options_number_ = 0;  // Of RocksDB's newest options file; 0: none.
  bool has_unknown_tables_ = false;      // Which the MANIFEST does not name.
  std::vector<uint64_t> table_numbers_;  // In the directory.
  std::vector<uint64_t> live_tables_;    // In the MANIFEST, rising.
  MemTableSink sink_;
  bool sink_used_ = false;
  size_t replayed_bytes_ = 0;
  size_t memtable_bytes_ = 0;  // At which the last memtable is full.
  // A log ended in damage: the next one counts only if it goes on at once.
  bool after_damage_ = false;
  SequenceNumber last_replayed_ = 0;  // 0: nothing yet.
  uint64_t first_log_ = 0;            // Of those that hold what tables do not.
  // The log replayed last, and where its last record ended.
  uint64_t last_log_ = 0;
  uint64_t last_log_end_ = 0;
};

}  // namespace varve
