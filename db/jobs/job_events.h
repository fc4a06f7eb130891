// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reports created tables and write stalls to listeners, the info log and
// statistics. Thread-safety: functions that add an event require the DB mutex.

#include <cstdint>
#include <memory>
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
// `properties` may be null.
void AddTableCreated(
    EventQueue* events, const std::string& db_path, uint64_t number,
    uint64_t bytes, const Status& status,
    const std::shared_ptr<const TableProperties>& properties = nullptr);
// Adds such an event for each table of an edit.
void AddTablesCreated(EventQueue* events, const std::string& db_path,
                      const VersionEdit& edit, const Status& status);
// Returns the description of a compaction before it begins.
CompactionJobInfo DescribeCompaction(const Compaction& compaction,
                                     const std::string& db_path);
// Adds the properties of the compaction's inputs to *info. Reads their files,
// so the DB mutex must not be held.
void AddInputProperties(const Compaction& compaction, Env* env,
                        CompactionJobInfo* info);
// Adds the numbers of the edit's tables.
void AddOutputProperties(const VersionEdit& edit, CompactionJobInfo* info);
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
