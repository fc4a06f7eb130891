// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Calls that tell a program what a DB does in the background. Give listeners
// through Options::listeners.

#include <cstdint>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/status.h"

namespace varve {

// A flush that begins or has ended. Times are 0 until it has.
struct FlushJobInfo {
  std::string db_path;
  uint64_t memtables = 0;  // That were written.
  // Of the table; 0 if none was needed, or before it is made.
  uint64_t file_number = 0;
  uint64_t file_bytes = 0;
  uint64_t micros = 0;
  Status status;
};

// A compaction that begins or has ended: bytes of output, time and status are
// known only then.
struct CompactionJobInfo {
  std::string db_path;
  int base_input_level = 0;
  int output_level = 0;
  std::vector<uint64_t> input_files;   // Numbers.
  std::vector<uint64_t> output_files;  // After it only.
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  bool trivial_move = false;  // Tables change level and are not rewritten.
  const char* reason = "";
  uint64_t micros = 0;
  Status status;
};

// Whether writers run freely, are slowed down, or wait.
enum class WriteStallCondition : uint8_t { kNormal, kDelayed, kStopped };

// A change of it.
struct WriteStallInfo {
  std::string db_path;
  WriteStallCondition current = WriteStallCondition::kNormal;
  WriteStallCondition previous = WriteStallCondition::kNormal;
  const char* cause = "";  // Of the current one.
};

// A table file that was made or removed.
struct TableFileInfo {
  std::string db_path;
  std::string file_path;
  uint64_t file_number = 0;
  uint64_t file_bytes = 0;
  Status status;  // Of its creation or removal.
};

// Every method may be called at any time, by threads of the engine and by the
// program's own that called it, by one at a time for a DB, in the order of
// events, with no lock of the DB held. It may read the DB. It must not write to
// it, wait for background work or close it: the thread that calls may be the
// one that would have to do that. What it throws ends the program. A job or
// write that has something to tell goes on only when the calls return.
class VARVE_EXPORT EventListener {
 public:
  virtual ~EventListener() = default;

  // Before anything is written.
  virtual void OnFlushBegin(const FlushJobInfo& /*info*/) {}
  // After the table can be read, or the flush has failed.
  virtual void OnFlushCompleted(const FlushJobInfo& /*info*/) {}
  virtual void OnCompactionBegin(const CompactionJobInfo& /*info*/) {}
  virtual void OnCompactionCompleted(const CompactionJobInfo& /*info*/) {}
  virtual void OnStallConditionsChanged(const WriteStallInfo& /*info*/) {}
  // The DB is read-only from then on, until Resume. `where` is what failed.
  virtual void OnBackgroundError(const std::string& /*where*/,
                                 const Status& /*status*/) {}
  // Whole and synced, but perhaps in no version yet. Or not, by its status: the
  // table, or a compaction with all its tables, has failed, and it is gone.
  virtual void OnTableFileCreated(const TableFileInfo& /*info*/) {}
  virtual void OnTableFileDeleted(const TableFileInfo& /*info*/) {}
};

}  // namespace varve
