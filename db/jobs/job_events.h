// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reports created tables and write stalls to listeners, the info log and
// statistics. Thread-safety: functions that add an event require the DB mutex.

#include <cstdint>
#include <string>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_iterator.h"
#include "db/dead_entries/dead_range_cleaner.h"
#include "db/jobs/event_queue.h"
#include "db/version/version_edit.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"

namespace varve {

// Adds the event that a table was created, or that its creation failed.
void AddTableCreated(EventQueue* events, const std::string& db_path,
                     uint64_t number, uint64_t bytes, const Status& status);
// Adds such an event for each table of an edit.
void AddTablesCreated(EventQueue* events, const std::string& db_path,
                      const VersionEdit& edit, const Status& status);
// Returns the description of a compaction before it begins.
CompactionJobInfo DescribeCompaction(const Compaction& compaction,
                                     const std::string& db_path);
// Reports to the log and the listeners that the write stall state changed.
void ReportStall(const std::string& db_path, const std::string& family,
                 const WriteStallState& before, const WriteStallState& now,
                 const WriteDebt& debt, Logger* log, EventQueue* events);
// Reports that a flush, or a compaction of `level`, is to remove dead entries
// that readers walked over. `level` is -1 for a flush.
void ReportDeadRange(const std::string& db_path,
                     const DeadRangeCleaner::Target& target, const char* job,
                     int level, Logger* log, EventQueue* events);
void CountDrops(StatisticsImpl* stats, const CompactionIterator::Drops& drops);

}  // namespace varve
