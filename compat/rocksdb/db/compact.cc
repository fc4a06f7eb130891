// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Manual compactions and background work.

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

// Compacts a range of a family; null is the default one.
Status Compact(rocksdb_t* db, ColumnFamilyHandle* family,
               const CompactRangeOptions& options, const KeyRange& range) {
  const Slice begin = range.begin.data != nullptr ? range.begin.slice() : "";
  const Slice end = range.end.data != nullptr ? range.end.slice() : "";
  return db->db->CompactRange(options, family,
                              range.begin.data != nullptr ? &begin : nullptr,
                              range.end.data != nullptr ? &end : nullptr);
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

}  // namespace
}  // namespace varve::rocksdb_c

using varve::Status;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::KeyRange;
using varve::rocksdb_c::Open;
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

// RocksDB only marks the tables. Here the compaction has ended when these
// return.
void rocksdb_suggest_compact_range(rocksdb_t* db, const char* start_key,
                                   size_t start_key_len, const char* limit_key,
                                   size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, range)) return;
  Failed(errptr,
         Compact(db, nullptr, {.exclusive_manual_compaction = false}, range));
}

void rocksdb_suggest_compact_range_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    const char* start_key, size_t start_key_len, const char* limit_key,
    size_t limit_key_len, char** errptr) {
  const KeyRange range{{start_key, start_key_len, "start_key"},
                       {limit_key, limit_key_len, "limit_key"}};
  if (!Usable(errptr, Open{db}, FamilyOf{column_family, db}, range)) return;
  Failed(errptr, Compact(db, column_family->rep.get(),
                         {.exclusive_manual_compaction = false}, range));
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
