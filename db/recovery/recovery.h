// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/recovery/unused_logs.h"
#include "db/version/manifest_reader.h"
#include "db/wal/prepared_set.h"
#include "db/wal/wal_predecessor.h"
#include "db/write/write_batch_internal.h"
#include "env/file_names.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/status.h"

namespace varve {

// A column family to open. The pointers must outlive the recovery.
struct RecoveryFamily {
  std::string name;
  const Options* options = nullptr;
  const InternalKeyComparator* comparator = nullptr;
  TableCache* table_cache = nullptr;
};

// The state of such a family on disk.
struct RecoveredFamily {
  // Null if the database does not have the family.
  FamilyManifest* manifest = nullptr;
  // The updates in the logs, oldest first, except memtables given to the sink.
  std::vector<MemTable*> memtables;
  size_t memtable_bytes = 0;  // Size of a full last memtable.
  uint64_t last_record = 0;   // The last one that updated the family.
};

// The checked contents of a database directory. Recovery writes nothing, so a
// refused database is not changed.
struct RecoveredState {
  RecoveredState() = default;
  RecoveredState(const RecoveredState&) = delete;
  RecoveredState& operator=(const RecoveredState&) = delete;
  ~RecoveredState();  // Unreferences the memtables still here.

  bool exists = false;  // False: there is no database.
  ManifestState manifest;
  std::vector<RecoveredFamily> families;  // Parallel to the families to open.
  SequenceNumber last_sequence = 0;
  // The transactions that the logs leave prepared.
  PreparedSet prepared;
  // The logs in the directory, in increasing order.
  std::vector<uint64_t> wal_numbers;
  // Names of foreign files, see IsForeignFile.
  std::set<std::string> foreign_files;
  // The logs are known to lack updates that they once held.
  bool logs_incomplete = false;
  // The last log that was replayed up to its end or to damage, and the end of
  // its last record. 0 if there is none.
  uint64_t last_log = 0;
  uint64_t last_log_end = 0;
  // The logs that hold more after the place where the replay stopped. Not set
  // without the lock.
  UnusedLogs unused_logs;
  std::vector<uint64_t> options_files;  // Their numbers.
  bool is_leveldb = false;              // LevelDB wrote the MANIFEST.
  uint64_t largest_file_number = 0;
  std::vector<std::string> old_info_logs;    // Names.
  std::vector<std::string> temporary_files;  // Names of the database's own.
  // The MANIFEST is complete, and the directory holds nothing else. There is no
  // update in the logs, no file to remove, and one log, which the MANIFEST
  // names.
  bool is_clean = false;
};

// Input and output of a recovery without the lock, see
// db/recovery/unlocked_recovery.h.
struct UnlockedRead {
  // In: called with the MANIFEST before any table is opened.
  std::function<void(const ManifestState&)> on_manifest;
  // In: the newest log ends in a record that is being written.
  bool tail_is_in_flight = false;

  // Out: a missing file that a writer may have removed, although the recovery
  // succeeded. Empty if none is missing.
  std::string inconsistency;
  // Out: the replayed logs, in increasing order.
  std::vector<uint64_t> logs;
  // Out: each log was read to its end, continues where the previous one ended,
  // and has a form that is never rewritten in place.
  bool logs_join = true;
  // Out: the number of the newest log, if it was refused because of its end,
  // and the size of the valid part.
  uint64_t torn_log = 0;
  uint64_t torn_at = 0;
};

// Takes a full memtable of a family, by its place in the families to open, and
// the reference to it, also on failure.
using MemTableSink = std::function<Status(size_t family, MemTable*)>;

// Reads the MANIFEST, the tables' metadata and the logs in two calls. Between
// them the caller may refuse the database or prepare to write tables.
// Thread-safety: owned by one thread.
class Recovery {
 public:
  // All must outlive it. The default family is the first one to open. Without
  // `unlocked` the database is locked, and all of its families must be opened.
  Recovery(const Options& options, std::string db_path,
           std::span<const RecoveryFamily> families, Logger* logger,
           UnlockedRead* unlocked = nullptr);

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
    FileKind type;
  };

  Status ListDirectory(RecoveredState* state);
  // Returns true if the MANIFEST or CURRENT names the file.
  bool IsNamed(const ManifestState& manifest, const Entry& entry) const;
  // Keeps the numbers of archived logs from new files: a log of that name would
  // replace it when it is archived.
  void PassArchive(RecoveredState* state) const;
  // Classifies the files that are not named, and removes the foreign ones from
  // the lists.
  void PassForeignFiles(RecoveredState* state);
  // Sets the manifests in state->families, and places_. Returns InvalidArgument
  // if the families to open are not the database's families.
  Status MatchFamilies(RecoveredState* state);
  // Sets *has_data if there are tables or nonempty logs.
  Status FindData(const RecoveredState& state, bool* has_data) const;
  Status CheckLevels(const RecoveredState& state) const;
  // Checks whether the MANIFEST has lost edits that took effect.
  Status CheckForLostEdits(const RecoveredState& state);
  // Checks whether the log that the MANIFEST names is missing. A log is created
  // before it is named, except by RocksDB.
  Status CheckNamedLog(RecoveredState* state);
  // Checks whether the last log that the MANIFEST names is missing, and all
  // that came after it.
  Status CheckNewestNamedLog(RecoveredState* state);
  // Returns how many files CheckTables may open at once.
  size_t FilesToOpen() const;
  Status CheckTables(RecoveredState* state);
  // Opens the tables so that a writer may remove them. Ignores other errors.
  void HoldTables(TableCache* table_cache,
                  const std::vector<FileMetaData*>& files);
  // Opens the logs that will be replayed, so that a writer may remove them.
  Status HoldLogs(const RecoveredState& state);
  // Sets UnlockedRead::inconsistency, if it is empty.
  void NoteInconsistency(const std::string& what);
  Status FindSequences(RecoveredState* state);
  void FindSequencesOf(size_t index, RecoveredState* state);
  Status ScanSequences(TableCache* table_cache, const TableFile& file,
                       SequenceNumber* smallest, SequenceNumber* largest);
  Status ReplayAll(RecoveredState* state);
  bool IsClean(const RecoveredState& state) const;
  Status ReplayLog(uint64_t number, RecoveredState* state, bool* stop);
  // Sets *batch to the record, which may be the first one of that log. Returns
  // Corruption if it is no batch, or of another log, as in a file that was
  // replaced by a copy of another one.
  Status CheckPlace(const Slice& record, uint64_t number, bool first,
                    BatchReader* batch) const;
  // Returns Corruption if the log, by its first record, was created by an Open
  // that the MANIFEST does not know.
  Status CheckForLaterOpen(const Slice& record, uint64_t number) const;
  // Returns whether the previous log has the length that the note, the first
  // record of its log, states. Returns nullopt if that log is not replayed.
  std::optional<bool> FoundPredecessor(const WalPredecessor& note) const;
  // Sets after_damage_ by the first record of a log. Returns Corruption if the
  // log before it is not complete, with kAbsoluteConsistency.
  Status FollowPredecessor(const Slice& record, const std::string& path);
  // Returns whether the record has marks of two-phase commit.
  static bool HasMarks(const Slice& record);
  // Returns Corruption if families have later updates in tables than those up
  // to which the logs were replayed. Batches would be whole in one family and
  // missing in another one.
  Status CheckForFamiliesAhead(const RecoveredState& state) const;
  // Finds the last update in the logs that were not replayed to their ends.
  void ScanUnusedLogs(RecoveredState* state) const;
  // Checks whether the logs hold all updates that they held when the database
  // was closed.
  Status CheckLogsEnd(RecoveredState* state);
  // Checks for a complete table with updates that were not replayed, whose
  // number the MANIFEST neither names nor has allocated. The updates of an
  // interrupted flush are in a log. An older backup's MANIFEST and logs do not
  // have the updates of such a table, and are refused.
  Status CheckUnknownTables(RecoveredState* state);
  // Reports missing updates. Returns the status with kAbsoluteConsistency;
  // otherwise logs it and returns OK.
  Status MissUpdates(const Status& status, RecoveredState* state);
  Status ApplyBatch(const Slice& record, uint64_t wal_number,
                    RecoveredState* state);
  Status CheckPrepared(const BatchRecord& record,
                       const RecoveredState& state) const;
  // Returns Corruption if no family ever had that id.
  Status CheckFamily(uint32_t family, const RecoveredState& state) const;
  // Returns the memtable for updates of a family in that log, or null if they
  // are in tables, or the family is not opened.
  MemTable* MemTableFor(uint32_t family, uint64_t wal_number,
                        RecoveredState* state, Status* status);
  // Begins a memtable. Gives the previous one, if any, to the sink.
  Status AddMemTable(size_t index, uint64_t wal_number, RecoveredState* state);

  const Options& options_;
  const std::string db_path_;
  const std::span<const RecoveryFamily> families_;
  Logger* const logger_;
  // The place of each family to open that exists, by id. Set by MatchFamilies.
  std::unordered_map<uint32_t, size_t> places_;
  std::vector<Entry> entries_;  // Files named like the engine's.
  UnlockedRead* const unlocked_;
  std::map<uint64_t, std::unique_ptr<SequentialFile>> held_logs_;
  bool has_current_ = false;
  bool has_lost_ = false;     // There is a directory lost/.
  bool has_archive_ = false;  // There is a directory archive/.
  size_t manifest_count_ = 0;
  uint64_t options_number_ = 0;      // RocksDB's newest options file; 0: none.
  bool has_unknown_tables_ = false;  // Not named by the MANIFEST.
  std::vector<uint64_t> table_numbers_;  // In the directory.
  std::vector<uint64_t> live_tables_;    // In the MANIFEST, increasing.
  MemTableSink sink_;
  bool sink_used_ = false;
  size_t replayed_bytes_ = 0;
  uint64_t records_ = 0;  // Number of replayed records.
  // A log ended in damage. The next one counts only if it continues directly.
  bool after_damage_ = false;
  Status damage_;                     // The first one, if after_damage_.
  SequenceNumber last_replayed_ = 0;  // 0: nothing yet.
  uint64_t first_log_ = 0;       // The first with updates that no table has.
  bool logs_are_files_ = false;  // As in the MANIFEST.
  // All updates up to this number were replayed or are in tables.
  SequenceNumber position_ = 0;
  // The last log that was replayed up to its end or to damage, and the end of
  // its last record.
  uint64_t last_log_ = 0;
  uint64_t last_log_end_ = 0;
};

}  // namespace varve
