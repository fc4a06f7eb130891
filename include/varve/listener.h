// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Listeners report a DB's background work to the program. Set them in
// Options::listeners.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/status.h"
#include "varve/table_properties.h"

namespace varve {

// A flush that begins or has ended. Times are 0 before its end.
struct FlushJobInfo {
  std::string db_path;
  uint32_t cf_id = 0;      // Id of the column family.
  std::string cf_name;     // Name of the column family.
  uint64_t memtables = 0;  // Written by the flush.
  // The table's number; 0 before it is created, or if none was needed.
  uint64_t file_number = 0;
  uint64_t file_bytes = 0;
  TableProperties table_properties;  // Of that table; at the end only.
  uint64_t micros = 0;
  Status status;
};

// A compaction that begins or has ended. Output bytes, time and status are
// valid only at the end.
struct CompactionJobInfo {
  std::string db_path;
  uint32_t cf_id = 0;   // Id of the column family.
  std::string cf_name;  // Name of the column family.
  int base_input_level = 0;
  int output_level = 0;
  std::vector<uint64_t> input_files;   // Numbers.
  std::vector<uint64_t> output_files;  // At the end only.
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  bool trivial_move = false;  // Tables change level and are not rewritten.
  const char* reason = "";
  // Of the input and output tables, by path; at the end only. An input that
  // cannot be read is left out.
  TablePropertiesCollection table_properties;
  uint64_t micros = 0;
  Status status;
};

// A range of user keys in which iterators walked over many dead entries, and
// the job that removes them.
struct DeadRangeInfo {
  std::string db_path;
  std::string begin;
  std::string end;         // Not part of it.
  bool has_begin = false;  // False: from the first key on.
  bool has_end = false;    // False: to the last key.
  uint64_t dead = 0;       // Deletions that the longest walk passed.
  uint64_t walks = 0;      // Walks that were reported.
  const char* job = "";    // "flush" or "compaction".
  int level = -1;          // The level to compact; -1 for a flush.
};

// Whether writers run freely, are slowed down, or wait.
enum class WriteStallCondition : uint8_t { kNormal, kDelayed, kStopped };

// A change of the write stall condition.
struct WriteStallInfo {
  std::string db_path;
  std::string cf_name;  // Name of the column family.
  WriteStallCondition current = WriteStallCondition::kNormal;
  WriteStallCondition previous = WriteStallCondition::kNormal;
  const char* cause = "";  // Cause of `current`.
};

// A table file that was created or removed.
struct TableFileInfo {
  std::string db_path;
  std::string file_path;
  uint64_t file_number = 0;
  uint64_t file_bytes = 0;
  Status status;  // Of its creation or removal.
  // At the creation only; null after an error.
  std::shared_ptr<const TableProperties> table_properties;
};

// A table from outside that was added to a family.
struct ExternalFileIngestionInfo {
  std::string cf_name;
  std::string external_file_path;
  std::string internal_file_path;  // In the database.
  uint64_t global_seqno = 0;       // The sequence number of its entries.
  int picked_level = 0;
};

// The methods may be called at any time, by threads of the engine or by program
// threads inside a DB call. For one DB, the calls come one at a time and in the
// order of events. No lock of the DB is held. A method may read the DB. It must
// not write to the DB, wait for background work or close it, since the calling
// thread may be the one that would do that work. An exception thrown by a
// method terminates the program. The job or write that reports an event
// continues only after the calls return.
class VARVE_EXPORT EventListener {
 public:
  virtual ~EventListener() = default;

  // Called before anything is written.
  virtual void OnFlushBegin(const FlushJobInfo& /*info*/) {}
  // Called after the table is readable, or the flush has failed.
  virtual void OnFlushCompleted(const FlushJobInfo& /*info*/) {}
  virtual void OnCompactionBegin(const CompactionJobInfo& /*info*/) {}
  virtual void OnCompactionCompleted(const CompactionJobInfo& /*info*/) {}
  // Called before a job begins that removes dead entries for readers.
  virtual void OnDeadRange(const DeadRangeInfo& /*info*/) {}
  virtual void OnStallConditionsChanged(const WriteStallInfo& /*info*/) {}
  // Called when the DB becomes read-only until Resume. `where` names the failed
  // operation.
  virtual void OnBackgroundError(const std::string& /*where*/,
                                 const Status& /*status*/) {}
  // Called when a table is complete and synced. It may not be in a version yet.
  // If its status is an error, the table or its compaction failed, and the file
  // is removed.
  virtual void OnTableFileCreated(const TableFileInfo& /*info*/) {}
  virtual void OnTableFileDeleted(const TableFileInfo& /*info*/) {}
  // Called for each file of DB::IngestExternalFiles after it is readable.
  virtual void OnExternalFileIngested(
      const ExternalFileIngestionInfo& /*info*/) {}
};

}  // namespace varve
