// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Manual compactions, also of chosen tables, and background work.

#include <fields.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "compat/rocksdb/callbacks/event_listener.h"
#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// A range of keys. A null bound is the first or the last key.
struct KeyRange {
  Bytes begin;
  Bytes end;
  static constexpr const char* name = "the range";

  bool ok() const { return IsBound(begin) && IsBound(end); }
  const char* Problem() const {
    return "has a length that is no length of memory";
  }

 private:
  static bool IsBound(const Bytes& key) {
    return key.data == nullptr || key.ok();
  }
};

// Calls `call` with the bounds of the range as the engine has them.
template <typename Call>
Status WithBounds(const KeyRange& range, Call call) {
  const Slice begin = range.begin.data != nullptr ? range.begin.slice() : "";
  const Slice end = range.end.data != nullptr ? range.end.slice() : "";
  return call(range.begin.data != nullptr ? &begin : nullptr,
              range.end.data != nullptr ? &end : nullptr);
}

// Compacts a range of a family; null is the default one.
Status Compact(rocksdb_t* db, ColumnFamilyHandle* family,
               const CompactRangeOptions& options, const KeyRange& range) {
  return WithBounds(range, [&](const Slice* begin, const Slice* end) {
    return db->db->CompactRange(options, family, begin, end);
  });
}

Status Suggest(rocksdb_t* db, ColumnFamilyHandle* family,
               const KeyRange& range) {
  return WithBounds(range, [&](const Slice* begin, const Slice* end) {
    return db->db->SuggestCompactRange(family, begin, end);
  });
}

Status DeleteFiles(rocksdb_t* db, ColumnFamilyHandle* family,
                   const KeyRange& range) {
  return WithBounds(range, [&](const Slice* begin, const Slice* end) {
    const RangePtr files{begin, end};
    return db->db->DeleteFilesInRanges(family, &files, 1, true);
  });
}

// For calls without an error argument: writes an error to LOG.
void CompactOrLog(rocksdb_t* db, ColumnFamilyHandle* family,
                  const CompactRangeOptions& options, const KeyRange& range) {
  Status status = Check(range);
  if (db->manual_compaction_pauses.load() > 0) {
    status = Status::Incomplete("Manual compaction paused");
  }
  if (status.ok()) status = Compact(db, family, options, range);
  if (status.ok()) return;
  Log(LogLevel::kWarn, db->log.get(), "rocksdb_compact_range: %s",
      ToText(status).c_str());
}

void CompactOrLog(rocksdb_t* db, ColumnFamilyHandle* family,
                  const rocksdb_compactoptions_t& options,
                  const KeyRange& range) {
  if (options.refused == nullptr) {
    CompactOrLog(db, family, options.rep, range);
  } else {
    NoteMissing("rocksdb_compact_range_opt", options.refused);
  }
}

// Stores copies of the names, from malloc.
void CopyNames(const std::vector<std::string>& names, char*** copies,
               size_t* count) {
  if (count != nullptr) *count = names.size();
  if (copies == nullptr) return;
  *copies = static_cast<char**>(calloc(names.size() + 1, sizeof(char*)));
  for (size_t i = 0; *copies != nullptr && i < names.size(); ++i) {
    (*copies)[i] = CopyBytes(names[i]);
  }
}

void CompactFiles(rocksdb_t* db, ColumnFamilyHandle* family,
                  const rocksdb_compaction_options_t& options,
                  const ArrayOf<const char*>& inputs, int output_level,
                  int output_path_id, char*** output_file_names,
                  size_t* num_output_file_names,
                  rocksdb_compactionjobinfo_t* info, char** errptr) {
  if (output_path_id > 0) {
    RefuseArgument(errptr, "output_path_id", "is the number of no path");
    return;
  }
  CompactionOptions converted;
  // RocksDB's word for the level's own.
  constexpr int kLevels = 255;
  if (options.compression != kLevels) {
    converted.compression = static_cast<CompressionType>(options.compression);
  }
  converted.output_file_size_limit = options.output_file_size_limit;
  const std::vector<std::string> names(inputs.entries,
                                       inputs.entries + inputs.count);
  std::vector<std::string> outputs;
  if (!Failed(errptr, db->db->CompactFiles(converted, family, names,
                                           output_level, &outputs))) {
    CopyNames(outputs, output_file_names, num_output_file_names);
    if (info != nullptr) {
      *info = rocksdb_compactionjobinfo_t();
      CompactionJobInfo& facts = info->stats.info;
      facts.db_path = db->path;
      facts.cf_id = family != nullptr ? family->GetID() : 0;
      facts.cf_name =
          family != nullptr ? family->GetName() : kDefaultColumnFamilyName;
      facts.output_level = output_level;
      info->input_paths = names;
      info->output_paths = outputs;
    }
  }
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::Status;
using varve::rocksdb_c::ArrayOf;
using varve::rocksdb_c::CompactFiles;
using varve::rocksdb_c::DeleteFiles;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::KeyRange;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::Suggest;
using varve::rocksdb_c::Usable;

extern "C" {

void rocksdb_compact_range(rocksdb_t* db, const char* start_key,
                           size_t start_key_len, const char* limit_key,
                           size_t limit_key_len) {
  if (!Open{db}.ok()) return;
  CompactOrLog(db, nullptr, varve::CompactRangeOptions(),
               KeyRange{{start_key, start_key_len, "start_key"},
                        {limit_key, limit_key_len, "limit_key"}});
}

void rocksdb_compact_range_cf(rocksdb_t* db,
                              rocksdb_column_family_handle_t* column_family,
                              const char* start_key, size_t start_key_len,
                              const char* limit_key, size_t limit_key_len) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok()) return;
  CompactOrLog(db, column_family->rep.get(), varve::CompactRangeOptions(),
               KeyRange{{start_key, start_key_len, "start_key"},
                        {limit_key, limit_key_len, "limit_key"}});
}

void rocksdb_compact_range_opt(rocksdb_t* db, rocksdb_compactoptions_t* opt,
                               const char* start_key, size_t start_key_len,
                               const char* limit_key, size_t limit_key_len) {
  if (!Open{db}.ok() || opt == nullptr) return;
  CompactOrLog(db, nullptr, *opt,
               KeyRange{{start_key, start_key_len, "start_key"},
                        {limit_key, limit_key_len, "limit_key"}});
}

void rocksdb_compact_range_cf_opt(rocksdb_t* db,
                                  rocksdb_column_family_handle_t* column_family,
                                  rocksdb_compactoptions_t* opt,
                                  const char* start_key, size_t start_key_len,
                                  const char* limit_key, size_t limit_key_len) {
  if (!Open{db}.ok() || !FamilyOf{column_family, db}.ok() || opt == nullptr) {
    return;
  }
  CompactOrLog(db, column_family->rep.get(), *opt,
               KeyRange{{start_key, start_key_len, "start_key"},
                        {limit_key, limit_key_len, "limit_key"}});
}

void rocksdb_suggest_compact_range(rocksdb_t* db, const char* start_key,
                                   size_t start_key_len, const char* limit_key,
                                   size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, range)) return;
  Failed(errptr, Suggest(db, nullptr, range));
}

void rocksdb_suggest_compact_range_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, FamilyOf{column_family, db}, range)) return;
  Failed(errptr, Suggest(db, column_family->rep.get(), range));
}

void rocksdb_delete_file_in_range(rocksdb_t* db, const char* start_key,
                                  size_t start_key_len, const char* limit_key,
                                  size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, range)) return;
  Failed(errptr, DeleteFiles(db, nullptr, range));
}

void rocksdb_delete_file_in_range_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, FamilyOf{column_family, db}, range)) return;
  Failed(errptr, DeleteFiles(db, column_family->rep.get(), range));
}

void rocksdb_compact_files(rocksdb_t* db,
                           const rocksdb_compaction_options_t* options,
                           const char* const* input_file_names,
                           size_t num_input_file_names, int output_level,
                           int output_path_id, char*** output_file_names,
                           size_t* num_output_file_names,
                           rocksdb_compactionjobinfo_t* compaction_job_info,
                           char** errptr) {
  const ArrayOf<const char*> inputs{
      input_file_names, static_cast<ptrdiff_t>(num_input_file_names),
      "input_file_names"};
  if (!Usable(errptr, Open{db}, Given{options, "options"}, inputs)) return;
  CompactFiles(db, nullptr, *options, inputs, output_level, output_path_id,
               output_file_names, num_output_file_names, compaction_job_info,
               errptr);
}

void rocksdb_compact_files_cf(rocksdb_t* db,
                              rocksdb_column_family_handle_t* column_family,
                              const rocksdb_compaction_options_t* options,
                              const char* const* input_file_names,
                              size_t num_input_file_names, int output_level,
                              int output_path_id, char*** output_file_names,
                              size_t* num_output_file_names,
                              rocksdb_compactionjobinfo_t* compaction_job_info,
                              char** errptr) {
  const ArrayOf<const char*> inputs{
      input_file_names, static_cast<ptrdiff_t>(num_input_file_names),
      "input_file_names"};
  if (!Usable(errptr, Open{db}, FamilyOf{column_family, db},
              Given{options, "options"}, inputs)) {
    return;
  }
  CompactFiles(db, column_family->rep.get(), *options, inputs, output_level,
               output_path_id, output_file_names, num_output_file_names,
               compaction_job_info, errptr);
}

void rocksdb_compact_files_output_file_names_destroy(
    char** output_file_names, size_t num_output_file_names) {
  if (output_file_names == nullptr) return;
  for (size_t i = 0; i < num_output_file_names; ++i) free(output_file_names[i]);
  free(output_file_names);
}

// Manual compactions that run are not stopped. As by RocksDB, an enable that
// comes first makes up for a later disable.
void rocksdb_disable_manual_compaction(rocksdb_t* db) {
  if (Open{db}.ok()) db->manual_compaction_pauses.fetch_add(1);
}

void rocksdb_enable_manual_compaction(rocksdb_t* db) {
  if (Open{db}.ok()) db->manual_compaction_pauses.fetch_sub(1);
}

void rocksdb_cancel_all_background_work(rocksdb_t* db, unsigned char wait) {
  if (Open{db}.ok()) db->db->CancelAllBackgroundWork(wait != 0);
}

void rocksdb_wait_for_compact(rocksdb_t* db,
                              rocksdb_wait_for_compact_options_t* options,
                              char** errptr) {
  if (!Usable(errptr, Open{db}, Given{options, "options"})) return;
  if (options->timeout != 0) {
    Failed(errptr, varve::rocksdb_c::Missing(
                       "time limit for rocksdb_wait_for_compact"));
    return;
  }
  Status status;
  if (options->flush != 0) {
    status = varve::rocksdb_c::FlushAll(varve::FlushOptions(), db);
  }
  if (status.ok()) status = db->db->WaitForCompact();
  // The handle is still to be closed by the program.
  if (status.ok() && options->close_db != 0) status = db->db->Close();
  Failed(errptr, status);
}

}  // extern "C"
