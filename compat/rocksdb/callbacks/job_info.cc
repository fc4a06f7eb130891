// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The facts of flushes, compactions and stalls, of which a listener is told.
#include "compat/rocksdb/callbacks/job_info.h"

#include <cinttypes>
#include <cstdio>

#include "compat/rocksdb/base.h"

namespace varve::rocksdb_c {

namespace {

// RocksDB's numbers of the reasons for a compaction.
struct CompactionReason {
  const char* reason;
  uint32_t number;
};

constexpr CompactionReason kReasons[] = {
    {"level 0 has enough files", 1},
    {"level is over its size", 2},
    {"asked for", 9},
    {"chosen by the program", 9},
    {"marked for compaction", 10},
    {"much of level 0 is deleted", 10},
    {"many of its entries are dead", 10},
    {"its deletions hide much", 10},
    {"readers walk over its dead entries", 10},
    {"snapshots are gone that it was kept for", 11},
    {"ttl", 12},
    {"periodic", 15},
};

constexpr uint32_t kManual = 9;

// Returns 0, unknown, for a reason that RocksDB does not have.
uint32_t ReasonNumber(const Slice& reason) {
  for (const CompactionReason& row : kReasons) {
    if (reason == Slice(row.reason)) return row.number;
  }
  return 0;
}

std::vector<std::string> TablePaths(const std::string& db_path,
                                    const std::vector<uint64_t>& numbers) {
  std::vector<std::string> paths;
  paths.reserve(numbers.size());
  for (const uint64_t number : numbers) {
    paths.push_back(TablePath(db_path, number));
  }
  return paths;
}

// Returns a text that ends with a zero byte, and its size.
const char* Text(const std::string& text, size_t* size) {
  if (size != nullptr) *size = text.size();
  return text.c_str();
}

const char* NoText(size_t* size) {
  if (size != nullptr) *size = 0;
  return nullptr;
}

const char* TextAt(const std::vector<std::string>& texts, size_t position,
                   size_t* size) {
  return position < texts.size() ? Text(texts[position], size) : NoText(size);
}

}  // namespace

std::string TablePath(const std::string& db_path, uint64_t number) {
  char name[32];
  snprintf(name, sizeof(name), "/%06" PRIu64 ".sst", number);
  return db_path + name;
}

}  // namespace varve::rocksdb_c

namespace rocksdb_c = varve::rocksdb_c;

rocksdb_compactionjobinfo_t::rocksdb_compactionjobinfo_t(
    const varve::CompactionJobInfo& info)
    : stats{info},
      input_paths(rocksdb_c::TablePaths(info.db_path, info.input_files)),
      output_paths(rocksdb_c::TablePaths(info.db_path, info.output_files)) {
  for (const uint64_t number : info.output_files) {
    output_files.push_back({info.output_level, number});
  }
}

extern "C" {

// ---- Flushes ----

uint32_t rocksdb_flushjobinfo_cf_id(const rocksdb_flushjobinfo_t* info) {
  return info == nullptr ? 0 : info->rep.cf_id;
}

const char* rocksdb_flushjobinfo_cf_name(const rocksdb_flushjobinfo_t* info,
                                         size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::Text(info->rep.cf_name, size);
}

const char* rocksdb_flushjobinfo_file_path(const rocksdb_flushjobinfo_t* info,
                                           size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::Text(info->file_path, size);
}

uint64_t rocksdb_flushjobinfo_file_number(const rocksdb_flushjobinfo_t* info) {
  return info == nullptr ? 0 : info->rep.file_number;
}

const rocksdb_table_properties_t* rocksdb_flushjobinfo_table_properties(
    const rocksdb_flushjobinfo_t* info) {
  return info == nullptr ? nullptr : &info->table_properties;
}

// ---- Compactions ----

rocksdb_compactionjobinfo_t* rocksdb_compactionjobinfo_create(void) {
  return new rocksdb_compactionjobinfo_t;
}

void rocksdb_compactionjobinfo_destroy(rocksdb_compactionjobinfo_t* info) {
  delete info;
}

uint32_t rocksdb_compactionjobinfo_cf_id(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->stats.info.cf_id;
}

const char* rocksdb_compactionjobinfo_cf_name(
    const rocksdb_compactionjobinfo_t* info, size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::Text(info->stats.info.cf_name, size);
}

void rocksdb_compactionjobinfo_status(const rocksdb_compactionjobinfo_t* info,
                                      char** errptr) {
  if (info == nullptr) {
    return rocksdb_c::RefuseArgument(errptr, "info", "is NULL");
  }
  static_cast<void>(rocksdb_c::Failed(errptr, info->stats.info.status));
}

int rocksdb_compactionjobinfo_base_input_level(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->stats.info.base_input_level;
}

int rocksdb_compactionjobinfo_output_level(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->stats.info.output_level;
}

uint32_t rocksdb_compactionjobinfo_compaction_reason(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : rocksdb_c::ReasonNumber(info->stats.info.reason);
}

size_t rocksdb_compactionjobinfo_input_files_count(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->input_paths.size();
}

size_t rocksdb_compactionjobinfo_output_files_count(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->output_paths.size();
}

const char* rocksdb_compactionjobinfo_input_file_at(
    const rocksdb_compactionjobinfo_t* info, size_t pos, size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::TextAt(info->input_paths, pos, size);
}

const char* rocksdb_compactionjobinfo_output_file_at(
    const rocksdb_compactionjobinfo_t* info, size_t pos, size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::TextAt(info->output_paths, pos, size);
}

size_t rocksdb_compactionjobinfo_output_file_infos_count(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? 0 : info->output_files.size();
}

const rocksdb_compaction_file_info_t*
rocksdb_compactionjobinfo_output_file_info_at(
    const rocksdb_compactionjobinfo_t* info, size_t pos) {
  return info == nullptr || pos >= info->output_files.size()
             ? nullptr
             : &info->output_files[pos];
}

int rocksdb_compaction_file_info_level(
    const rocksdb_compaction_file_info_t* info) {
  return info == nullptr ? 0 : info->level;
}

uint64_t rocksdb_compaction_file_info_file_number(
    const rocksdb_compaction_file_info_t* info) {
  return info == nullptr ? 0 : info->file_number;
}

// ---- Statistics of compactions ----

const rocksdb_compaction_job_stats_t* rocksdb_compactionjobinfo_stats(
    const rocksdb_compactionjobinfo_t* info) {
  return info == nullptr ? nullptr : &info->stats;
}

uint64_t rocksdb_compaction_job_stats_elapsed_micros(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr ? 0 : stats->info.micros;
}

uint64_t rocksdb_compaction_job_stats_total_input_bytes(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr ? 0 : stats->info.input_bytes;
}

uint64_t rocksdb_compaction_job_stats_total_output_bytes(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr ? 0 : stats->info.output_bytes;
}

size_t rocksdb_compaction_job_stats_num_input_files(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr ? 0 : stats->info.input_files.size();
}

size_t rocksdb_compaction_job_stats_num_input_files_trivially_moved(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr || !stats->info.trivial_move
             ? 0
             : stats->info.input_files.size();
}

size_t rocksdb_compaction_job_stats_num_output_files(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats == nullptr ? 0 : stats->info.output_files.size();
}

unsigned char rocksdb_compaction_job_stats_is_manual_compaction(
    const rocksdb_compaction_job_stats_t* stats) {
  return stats != nullptr && rocksdb_c::ReasonNumber(stats->info.reason) ==
                                 rocksdb_c::kManual
             ? 1
             : 0;
}

uint64_t rocksdb_compactionjobinfo_elapsed_micros(
    const rocksdb_compactionjobinfo_t* info) {
  return rocksdb_compaction_job_stats_elapsed_micros(
      rocksdb_compactionjobinfo_stats(info));
}

uint64_t rocksdb_compactionjobinfo_total_input_bytes(
    const rocksdb_compactionjobinfo_t* info) {
  return rocksdb_compaction_job_stats_total_input_bytes(
      rocksdb_compactionjobinfo_stats(info));
}

uint64_t rocksdb_compactionjobinfo_total_output_bytes(
    const rocksdb_compactionjobinfo_t* info) {
  return rocksdb_compaction_job_stats_total_output_bytes(
      rocksdb_compactionjobinfo_stats(info));
}

size_t rocksdb_compactionjobinfo_num_input_files(
    const rocksdb_compactionjobinfo_t* info) {
  return rocksdb_compaction_job_stats_num_input_files(
      rocksdb_compactionjobinfo_stats(info));
}

// ---- Stalls ----

const char* rocksdb_writestallinfo_cf_name(const rocksdb_writestallinfo_t* info,
                                           size_t* size) {
  if (info == nullptr) return rocksdb_c::NoText(size);
  return rocksdb_c::Text(info->rep.cf_name, size);
}

const rocksdb_writestallcondition_t* rocksdb_writestallinfo_cur(
    const rocksdb_writestallinfo_t* info) {
  return info == nullptr ? nullptr : &info->current;
}

const rocksdb_writestallcondition_t* rocksdb_writestallinfo_prev(
    const rocksdb_writestallinfo_t* info) {
  return info == nullptr ? nullptr : &info->previous;
}

}  // extern "C"
