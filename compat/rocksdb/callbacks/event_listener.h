// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The listeners of programs, and the facts of the events that they get. Facts
// that the engine does not report are missing functions (functions.txt), and
// so are subcompactions, ingested files and sealed memtables.

#include <rocksdb/c.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compat/rocksdb/callbacks/callback_state.h"
#include "compat/rocksdb/callbacks/table_properties.h"
#include "varve/listener.h"
#include "varve/status.h"

namespace varve::rocksdb_c {

// Returns the handle of the open database with this path, or null. Defined in
// compat/rocksdb/db.
rocksdb_t* FindOpenDatabase(const std::string& path);

}  // namespace varve::rocksdb_c

struct rocksdb_flushjobinfo_t {
  const varve::FlushJobInfo& rep;
  const std::string file_path;
  const rocksdb_table_properties_t table_properties{rep.table_properties};
};

struct rocksdb_compaction_file_info_t {
  int level = 0;
  uint64_t file_number = 0;
};

// Statistics of a compaction.
struct rocksdb_compaction_job_stats_t {
  varve::CompactionJobInfo info;
};

// Created by the program, or for a call of a listener.
struct rocksdb_compactionjobinfo_t {
  rocksdb_compactionjobinfo_t() = default;
  explicit rocksdb_compactionjobinfo_t(const varve::CompactionJobInfo& info);

  rocksdb_compaction_job_stats_t stats;
  std::vector<std::string> input_paths;
  std::vector<std::string> output_paths;
  std::vector<rocksdb_compaction_file_info_t> output_files;
};

// In RocksDB's numbers: 0 delayed, 1 stopped, 2 normal.
struct rocksdb_writestallcondition_t {
  int rep;
};

struct rocksdb_writestallinfo_t {
  const varve::WriteStallInfo& rep;
  const rocksdb_writestallcondition_t current;
  const rocksdb_writestallcondition_t previous;
};

// The error of a background job, for the duration of a call.
struct rocksdb_status_ptr_t {
  varve::Status rep;
};

// A listener of the program. Options that get it take it over.
struct rocksdb_eventlistener_t final : varve::EventListener {
  explicit rocksdb_eventlistener_t(
      varve::rocksdb_c::CallbackState callback_state)
      : state(std::move(callback_state)) {}

  void OnFlushBegin(const varve::FlushJobInfo& info) override;
  void OnFlushCompleted(const varve::FlushJobInfo& info) override;
  void OnCompactionBegin(const varve::CompactionJobInfo& info) override;
  void OnCompactionCompleted(const varve::CompactionJobInfo& info) override;
  void OnStallConditionsChanged(const varve::WriteStallInfo& info) override;
  void OnBackgroundError(const std::string& where,
                         const varve::Status& status) override;

  const varve::rocksdb_c::CallbackState state;
  // Each may be null.
  on_flush_begin_cb on_flush_begin = nullptr;
  on_flush_completed_cb on_flush_completed = nullptr;
  on_compaction_begin_cb on_compaction_begin = nullptr;
  on_compaction_completed_cb on_compaction_completed = nullptr;
  on_background_error_cb on_background_error = nullptr;
  on_stall_conditions_changed_cb on_stall_conditions_changed = nullptr;
};
