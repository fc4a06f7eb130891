// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Calls on single tables: their properties, their removal, and compactions of
// tables that the program chooses.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/jobs/table_jobs.h"
#include "db/live_files/files_in_ranges.h"
#include "db/live_files/table_metadata.h"
#include "env/file_names.h"
#include "util/bytes/compression.h"

namespace varve {

// Sets *family to the handle's family, for a call that changes tables.
Status DBImpl::CheckFamily(ColumnFamilyHandle* handle, ColumnFamily** family) {
  *family = FamilyHandle::FamilyOf(core_.families, handle);
  if (*family == nullptr) return ForeignHandleError();
  if (core_.is_read_only) return ReadOnlyError();
  if (IsClosed()) return ClosedError();
  return core_.control.CheckWritable();
}

// ---- Properties -------------------------------------------------------------

Status DBImpl::GetPropertiesOfAllTables(ColumnFamilyHandle* handle,
                                        TablePropertiesCollection* result) {
  result->clear();
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  return ReadProperties(family, nullptr, result);
}

Status DBImpl::GetPropertiesOfTablesInRange(ColumnFamilyHandle* handle,
                                            const Range* ranges, size_t count,
                                            TablePropertiesCollection* result) {
  result->clear();
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  std::vector<UserKeyRange> wanted;
  for (size_t i = 0; i < count; ++i) {
    wanted.push_back({&ranges[i].start, &ranges[i].limit});
  }
  return ReadProperties(family, &wanted, result);
}

// Reads the properties of the tables that overlap one of the ranges, or of all
// if `ranges` is null.
Status DBImpl::ReadProperties(ColumnFamily* family,
                              const std::vector<UserKeyRange>* ranges,
                              TablePropertiesCollection* result) {
  if (IsClosed()) return ClosedError();
  SuperVersion* const super_version = family->super_versions().Reference();
  Status status;
  for (const auto& files : super_version->version->levels()) {
    for (const FileMetaData* file : files) {
      if (!status.ok()) break;
      if (ranges != nullptr &&
          std::none_of(
              ranges->begin(), ranges->end(), [&](const UserKeyRange& range) {
                return FileOverlaps(family->comparator(), *file, range);
              })) {
        continue;
      }
      auto properties = std::make_shared<TableProperties>();
      status = ReadTableProperties(core_.env, core_.directory.path(), *file,
                                   properties.get());
      if (!status.ok()) break;
      result->emplace(TableFileName(core_.directory.path(), file->number),
                      std::move(properties));
    }
  }
  family->super_versions().Release(super_version);
  if (!status.ok()) result->clear();
  return status;
}

// ---- Removal ----------------------------------------------------------------

Status DBImpl::DeleteFilesInRanges(ColumnFamilyHandle* handle,
                                   const RangePtr* ranges, size_t count,
                                   bool include_end) {
  ColumnFamily* family = nullptr;
  Status status = CheckFamily(handle, &family);
  // The device may be full: this frees space.
  if (!status.ok() && !IsSpaceError(status)) return status;
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  if (core_.control.IsEndingLocked()) return Status::ShutdownInProgress();
  if (!core_.control.error().ok() && !IsSpaceError(core_.control.error())) {
    return core_.control.error();
  }
  if (family->is_dropped()) return FamilyDroppedError(family->name());
  bool dropped = false;
  const std::vector<CoveredTable> tables =
      FindTablesInRanges(*family->version(), {ranges, count}, include_end);
  status = TableJobs(core_).DropLocked(
      family, tables, "in the ranges that the program deletes", &dropped);
  core_.scheduler.SignalLocked();
  if (!dropped) return status;
  core_.control.InstallSuperVersionLocked(family);
  // Older values of removed keys may be visible, so no range is known to be
  // dead. An iterator from before may still report one: it reads at another
  // number than the newest, which is not believed at once (T2 of DeadRanges).
  family->dead_walks()->leader_ranges()->Clear();
  OutsideChange change;
  change.kind = TransactionLogGap::Kind::kRemoved;
  change.first = change.last = core_.versions->LastSequence() + 1;
  for (const CoveredTable& table : tables) {
    change.files.push_back({family->id(), TableFileName("", table.number), ""});
  }
  flusher_.LogOutsideLocked(change);
  core_.versions->SetLastSequence(change.last);
  core_.publications.Wake();
  core_.jobs.PurgeLocked();
  core_.jobs.StartDueLocked();
  core_.events.DeliverLocked();
  return status;
}

// ---- Compactions ------------------------------------------------------------

Status DBImpl::CompactFiles(const CompactionOptions& options,
                            ColumnFamilyHandle* handle,
                            const std::vector<std::string>& inputs,
                            int output_level,
                            std::vector<std::string>* outputs) {
  if (outputs != nullptr) outputs->clear();
  ColumnFamily* family = nullptr;
  Status status = CheckFamily(handle, &family);
  if (!status.ok()) return status;
  // A job that failed for these would make the database read-only.
  if (options.compression && !CompressionSupported(*options.compression)) {
    return Status::InvalidArgument("compression",
                                   NotBuiltInText(*options.compression));
  }
  if (options.output_file_size_limit == 0) {
    return Status::InvalidArgument("output_file_size_limit", "is 0");
  }
  std::set<uint64_t> numbers;
  for (const std::string& name : inputs) {
    uint64_t number = 0;
    if (!ParseTableName(name, &number)) {
      return Status::InvalidArgument(name, "is not the name of a table");
    }
    numbers.insert(number);
  }
  std::vector<uint64_t> written;
  MutexLock lock(core_.mutex());
  status = core_.control.WritableLocked();
  if (status.ok()) {
    status = compactor_.RunFilesLocked(family, options, std::move(numbers),
                                       output_level, &written);
  }
  if (!status.ok() || outputs == nullptr) return status;
  for (const uint64_t number : written) {
    outputs->push_back(TableFileName(core_.directory.path(), number));
  }
  return status;
}

Status DBImpl::SuggestCompactRange(ColumnFamilyHandle* handle,
                                   const Slice* begin, const Slice* end) {
  ColumnFamily* family = nullptr;
  Status status = CheckFamily(handle, &family);
  if (!status.ok()) return status;
  MutexLock lock(core_.mutex());
  if (family->is_dropped()) return FamilyDroppedError(family->name());
  Version* const version = family->version();
  for (int level = 0; level <= version->DeepestLevel(); ++level) {
    for (FileMetaData* file :
         version->OverlappingFiles(level, {begin, end}, /*expand=*/false)) {
      file->marked_for_compaction = true;
    }
  }
  version->FindMarkedLocked();
  core_.jobs.StartDueLocked();
  return status;
}

Status DBImpl::PromoteL0(ColumnFamilyHandle* handle, int target_level) {
  ColumnFamily* family = nullptr;
  Status status = CheckFamily(handle, &family);
  if (!status.ok()) return status;
  MutexLock lock(core_.mutex());
  status = core_.control.WritableLocked();
  return status.ok() ? compactor_.PromoteLocked(family, target_level) : status;
}

}  // namespace varve
