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

// That a table was made, or, by the status, was not.
void AddTableCreated(EventQueue* events, const std::string& db_path,
                     uint64_t number, uint64_t bytes, const Status& status);
// The same of the tables of an edit.
void AddTablesCreated(EventQueue* events, const std::string& db_path,
                      const VersionEdit& edit, const Status& status);
// A compaction as it is before it begins.
CompactionJobInfo DescribeCompaction(const Compaction& compaction,
                                     const std::string& db_path);
// Tells the log and the listeners that writers are slowed down by something
// else, or differently.
void ReportStall(const std::string& db_path, const WriteStallState& before,
                 const WriteStallState& now, const WriteDebt& debt, Logger* log,
                 EventQueue* events);
void CountDrops(StatisticsImpl* stats, const CompactionIterator::Drops& drops);

}  // namespace varve
