// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/callbacks/event_listener.h"

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/callbacks/job_info.h"

namespace varve::rocksdb_c {

namespace {

// RocksDB's numbers of the operations that fail.
enum BackgroundErrorReason : uint32_t {
  kFlush = 0,
  kCompaction = 1,
  kWriteCallback = 2,
  kManifestWrite = 4,
};

struct FailedOperation {
  const char* where;
  BackgroundErrorReason reason;
};

constexpr FailedOperation kFailedOperations[] = {
    {"a flush", kFlush},
    {"a compaction", kCompaction},
    {"starting a background job", kFlush},
    {"writing the log", kWriteCallback},
    {"writing the MANIFEST", kManifestWrite},
    {"creating a column family", kManifestWrite},
    {"dropping a column family", kManifestWrite},
    {"reserving numbers of tables", kManifestWrite},
    {"adding tables from outside", kManifestWrite},
};

BackgroundErrorReason ReasonOf(const std::string& where) {
  for (const FailedOperation& operation : kFailedOperations) {
    if (where == operation.where) return operation.reason;
  }
  return kWriteCallback;
}

rocksdb_writestallcondition_t ConditionOf(WriteStallCondition condition) {
  switch (condition) {
    case WriteStallCondition::kDelayed:
      return {0};
    case WriteStallCondition::kStopped:
      return {1};
    case WriteStallCondition::kNormal:
      break;
  }
  return {2};
}

template <typename Function>
void CallForFlush(Function function, void* state, const FlushJobInfo& info) {
  if (function == nullptr) return;
  const rocksdb_flushjobinfo_t job{
      info, info.file_number == 0 ? std::string()
                                  : TablePath(info.db_path, info.file_number)};
  function(state, FindOpenDatabase(info.db_path), &job);
}

template <typename Function>
void CallForCompaction(Function function, void* state,
                       const CompactionJobInfo& info) {
  if (function == nullptr) return;
  const rocksdb_compactionjobinfo_t job(info);
  function(state, FindOpenDatabase(info.db_path), &job);
}

}  // namespace

}  // namespace varve::rocksdb_c

namespace rocksdb_c = varve::rocksdb_c;

void rocksdb_eventlistener_t::OnFlushBegin(const varve::FlushJobInfo& info) {
  rocksdb_c::CallForFlush(on_flush_begin, state.get(), info);
}

void rocksdb_eventlistener_t::OnFlushCompleted(
    const varve::FlushJobInfo& info) {
  rocksdb_c::CallForFlush(on_flush_completed, state.get(), info);
}

void rocksdb_eventlistener_t::OnCompactionBegin(
    const varve::CompactionJobInfo& info) {
  rocksdb_c::CallForCompaction(on_compaction_begin, state.get(), info);
}

void rocksdb_eventlistener_t::OnCompactionCompleted(
    const varve::CompactionJobInfo& info) {
  rocksdb_c::CallForCompaction(on_compaction_completed, state.get(), info);
}

void rocksdb_eventlistener_t::OnStallConditionsChanged(
    const varve::WriteStallInfo& info) {
  if (on_stall_conditions_changed == nullptr) return;
  const rocksdb_writestallinfo_t stall{info,
                                       rocksdb_c::ConditionOf(info.current),
                                       rocksdb_c::ConditionOf(info.previous)};
  on_stall_conditions_changed(state.get(), &stall);
}

void rocksdb_eventlistener_t::OnBackgroundError(const std::string& where,
                                                const varve::Status& status) {
  if (on_background_error == nullptr) return;
  rocksdb_status_ptr_t error{status};
  on_background_error(state.get(), rocksdb_c::ReasonOf(where), &error);
}

extern "C" {

// Varve has no events of subcompactions, ingested files and sealed memtables.
rocksdb_eventlistener_t* rocksdb_eventlistener_create(
    void* state, void (*destructor)(void*), on_flush_begin_cb on_flush_begin,
    on_flush_completed_cb on_flush_completed,
    on_compaction_begin_cb on_compaction_begin,
    on_compaction_completed_cb on_compaction_completed,
    on_subcompaction_begin_cb /*on_subcompaction_begin*/,
    on_subcompaction_completed_cb /*on_subcompaction_completed*/,
    on_external_file_ingested_cb /*on_external_file_ingested*/,
    on_background_error_cb on_background_error,
    on_stall_conditions_changed_cb on_stall_conditions_changed,
    on_memtable_sealed_cb /*on_memtable_sealed*/) {
  auto* const listener = new rocksdb_eventlistener_t(
      rocksdb_c::CallbackState(state, destructor, nullptr));
  listener->on_flush_begin = on_flush_begin;
  listener->on_flush_completed = on_flush_completed;
  listener->on_compaction_begin = on_compaction_begin;
  listener->on_compaction_completed = on_compaction_completed;
  listener->on_background_error = on_background_error;
  listener->on_stall_conditions_changed = on_stall_conditions_changed;
  return listener;
}

void rocksdb_eventlistener_destroy(rocksdb_eventlistener_t* listener) {
  delete listener;
}

void rocksdb_status_ptr_get_error(rocksdb_status_ptr_t* status, char** errptr) {
  if (status == nullptr) {
    return rocksdb_c::RefuseArgument(errptr, "status", "is NULL");
  }
  static_cast<void>(rocksdb_c::Failed(errptr, status->rep));
}

// The listener no longer sees the error. The database stays read-only.
void rocksdb_reset_status(rocksdb_status_ptr_t* status) {
  if (status == nullptr) return;
  rocksdb_c::NoteMissing("rocksdb_reset_status",
                         "way to ignore the error of a background job");
  status->rep = varve::Status::OK();
}

}  // extern "C"
