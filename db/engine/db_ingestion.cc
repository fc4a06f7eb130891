// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Tables that other programs have written.

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/ingestion/import.h"
#include "db/ingestion/ingestion.h"
#include "monitoring/span.h"

namespace varve {

namespace {

// Flushes beside other writes before the write queue is held for one.
constexpr int kMostFlushes = 4;

// A call that Close waits for.
class CountedCall {
 public:
  // `core` must outlive this object.
  explicit CountedCall(DbCore& core) : core_(core) {
    MutexLock lock(core_.mutex());
    status_ = core_.control.WritableLocked();
    ++core_.picker.gate().manual_count;
  }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
  ~CountedCall() {
    MutexLock lock(core_.mutex());
    --core_.picker.gate().manual_count;
    core_.jobs.PurgeLaterLocked();
    core_.scheduler.SignalLocked();
  }

  // The error of a database that is not writable.
  const Status& status() const { return status_; }

 private:
  DbCore& core_;
  Status status_;
};

}  // namespace

Status DBImpl::IngestExternalFiles(
    const std::vector<IngestExternalFileArg>& arguments) {
  const RequestSpan span("DB::IngestExternalFiles");
  if (arguments.empty()) {
    return Status::InvalidArgument("no files are named");
  }
  for (const IngestExternalFileArg& one : arguments) {
    if (FamilyHandle::FamilyOf(core_.families, one.column_family) == nullptr) {
      return ForeignHandleError();
    }
  }
  if (core_.is_read_only) return ReadOnlyError();
  Status status = admission_.ResumeIfFull();
  if (!status.ok()) return status;
  const CountedCall call(core_);
  if (!call.status().ok()) return call.status();
  Ingestion ingestion(core_, flusher_);
  for (const auto& [handle, files, options] : arguments) {
    ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
    status = ingestion.AddFamily(family, files, options);
    if (!status.ok()) return status;
  }
  status = ingestion.Prepare();
  for (int i = 0; i < kMostFlushes && status.ok(); ++i) {
    const auto overlapped = ingestion.OverlappedFamilies(&status);
    if (!status.ok() || overlapped.empty()) break;
    status = FlushFamilies(FlushOptions(), overlapped);
  }
  if (status.ok()) status = ingestion.ExamineLevels();
  // So that the sync in the last step, for which writers wait, is short.
  if (status.ok()) status = FlushWAL(true);
  if (status.ok()) status = ingestion.Commit();
  if (status.ok()) ingestion.RemoveOriginals();
  return status;
}

Status DBImpl::CreateColumnFamilyWithImport(
    const ColumnFamilyOptions& family_options, const std::string& name,
    const ImportColumnFamilyOptions& options,
    const ExportImportFilesMetaData& metadata, ColumnFamilyHandle** handle) {
  const RequestSpan span("DB::CreateColumnFamilyWithImport");
  *handle = nullptr;
  if (core_.is_read_only) return ReadOnlyError();
  Status status = admission_.ResumeIfFull();
  if (!status.ok()) return status;
  const CountedCall call(core_);
  if (!call.status().ok()) return call.status();
  {
    MutexLock lock(core_.mutex());
    if (core_.families.Find(name) != nullptr) {
      return Status::InvalidArgument("column family " + name, "exists");
    }
  }
  Import import(core_);
  status = import.Prepare(family_options, options, metadata);
  std::vector<ColumnFamilyHandle*> handles;
  if (status.ok()) {
    status = AddFamilies({{name, family_options}}, import.edit(), &handles);
  }
  // Complete: it was written, or may have been.
  if (import.edit()->next_file_number()) import.Keep();
  if (handles.empty()) return status;
  *handle = handles.front();
  if (options.move_files) import.RemoveOriginals();
  return status;
}

}  // namespace varve
