// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// What listeners, the info log and statistics are told about tables that jobs
// create, and about write stalls.
// Thread-safety: with the DB mutex, where they add an event.

#include <cstdint>
#include <string>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_iterator.h"
#include "db/parts/event_queue.h"
#include "db/version/version_edit.h"
#include "db/write/write_stall.h"
#include "monitoring/statistics.h"

namespace varve {

// Adds the event that a table was created, or that this failed with `status`.
void AddTableCreated(EventQueue* events, const std::string& db_path,
                     uint64_t number, uint64_t bytes, const Status& status);
// Adds it for each table of the edit.
void AddTablesCreated(EventQueue* events, const std::string& db_path,
                      const VersionEdit& edit, const Status& status);
// Describes a compaction before it runs.
CompactionJobInfo DescribeCompaction(const Compaction& compaction,
                                     const std::string& db_path);
// Reports a change of the stall state to the log and the listeners.
void ReportStall(const std::string& db_path, const WriteStallState& before,
                 const WriteStallState& now, const WriteDebt& debt, Logger* log,
                 EventQueue* events);
void CountDrops(StatisticsImpl* stats, const CompactionIterator::Drops& drops);

}  // namespace varve
