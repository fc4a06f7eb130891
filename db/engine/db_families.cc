// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Column families: created and dropped.

#include <algorithm>
#include <utility>

#include "db/engine/db_impl.h"
#include "db/options/options_check.h"
#include "db/parts/common_errors.h"
#include "db/version/manifest_reader.h"
#include "env/file_names.h"

namespace varve {

// ---- Calls of DB that others implement --------------------------------------

Status DB::CreateColumnFamilies(const ColumnFamilyOptions& options,
                                const std::vector<std::string>& names,
                                std::vector<ColumnFamilyHandle*>* handles) {
  std::vector<ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, options);
  return CreateColumnFamilies(families, handles);
}

Status DB::CreateColumnFamilies(
    const std::vector<ColumnFamilyDescriptor>& families,
    std::vector<ColumnFamilyHandle*>* handles) {
  for (const ColumnFamilyDescriptor& family : families) {
    ColumnFamilyHandle* handle = nullptr;
    Status status = CreateColumnFamily(family.options, family.name, &handle);
    if (!status.ok()) return status;
    handles->push_back(handle);
  }
  return Status::OK();
}

Status DB::DropColumnFamilies(
    const std::vector<ColumnFamilyHandle*>& families) {
  for (ColumnFamilyHandle* const family : families) {
    Status status = DropColumnFamily(family);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

Status DB::DestroyColumnFamilyHandle(ColumnFamilyHandle* family) {
  if (family == DefaultColumnFamily()) {
    return Status::InvalidArgument("the handle belongs to the DB");
  }
  // Another DB may own it.
  if (family != nullptr && DefaultColumnFamily() != nullptr &&
      FamilyHandle::AreOfTwoDbs(*family, *DefaultColumnFamily())) {
    return ForeignHandleError();
  }
  delete family;
  return Status::OK();
}

std::vector<Status> DB::MultiGet(
    const ReadOptions& options,
    const std::vector<ColumnFamilyHandle*>& families,
    const std::vector<Slice>& keys, std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size());
  values->resize(keys.size());
  if (families.size() != keys.size()) {
    std::fill(statuses.begin(), statuses.end(),
              Status::InvalidArgument("not as many families as keys"));
    return statuses;
  }
  MultiGet(options, keys.size(), families.data(), keys.data(), values->data(),
           statuses.data());
  return statuses;
}

// ---- DBImpl -----------------------------------------------------------------

Status DBImpl::CreateColumnFamily(const ColumnFamilyOptions& options,
                                  const std::string& name,
                                  ColumnFamilyHandle** handle) {
  *handle = nullptr;
  if (read_only_) return ReadOnlyError();
  if (name.empty()) {
    return Status::InvalidArgument("a column family has no name");
  }
  if (IsOfCatalog()) {
    return Status::NotSupported(
        "a catalog's database has only the default column family");
  }
  Status status = CheckOptions(Options(options_, options));
  if (status.ok()) status = ResumeIfFull();
  if (!status.ok()) return status;
  std::unique_ptr<ColumnFamily> family = NewFamily(name, options);
  std::unique_ptr<ColumnFamily> unused;
  ColumnFamily* added = nullptr;
  {
    const WriteQueue::Exclusive leader(&write_queue_);
    MutexLock lock(&mutex_);
    status = WritableLocked();
    if (status.ok() && families_.Find(name) != nullptr) {
      status = Status::InvalidArgument("column family " + name, "exists");
    }
    if (status.ok() && families_.live().size() >= kMaxFamilies) {
      status = Status::NotSupported("too many column families");
    }
    if (status.ok()) {
      added = family.get();
      status = AddFamilyLocked(std::move(family));
      age_watch_.StartLocked();
      // Nobody can drop it before its handle exists.
      events_.DeliverLocked();
    } else {
      unused = std::move(family);
    }
  }
  if (status.ok()) {
    *handle = new FamilyHandle(added, handles_, true);
    added->JoinBudget();
  }
  if (unused != nullptr) unused->Close();
  return status;
}

// For the leader of the queue, and for Open.
Status DBImpl::AddFamilyLocked(std::unique_ptr<ColumnFamily> family) {
  RemoveOptionsFilesLocked();
  const uint64_t log_number = wals_.NewestLocked();
  ColumnFamily* const added = family.get();
  Status status = versions_->CreateFamilyLocked(added->versions(), log_number);
  if (!status.ok()) {
    control_.SetErrorLocked(status, "creating a column family");
    mutex_.Unlock();
    added->Close();
    mutex_.Lock();
    versions_->RemoveFamilyLocked(added->versions());
    return status;
  }
  const TableOutputContext& context = *family_.output_context();
  added->SetOutputContext(context.db_path, context.db_identity,
                          context.session_identity);
  added->BeginLocked(
      added->NewMemTable(log_number, families_.live().size() + 1), {});
  families_.AddLocked(std::move(family));
  control_.InstallSuperVersionLocked(added);
  control_.log_bound().UpdateLogSizeLocked();
  Log(LogLevel::kInfo, &log_, "created column family %s, id %u",
      added->name().c_str(), added->id());
  return status;
}

// Removes RocksDB's files of options before the families change, because they
// would not describe them any more. RocksDB's tools would refuse the database
// because of them. For the leader of the queue, and for Open. May release the
// mutex and reacquire it.
void DBImpl::RemoveOptionsFilesLocked() {
  if (!std::exchange(has_options_files_, false)) return;
  mutex_.Unlock();
  std::vector<std::string> names;
  Status status = db_directory_.Verify();
  if (status.ok()) status = env_->GetChildren(db_directory_.path(), &names);
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileType type;
    if (!ParseFileName(name, &number, &type) || type != FileType::kOptions) {
      continue;
    }
    const Status removed =
        env_->RemoveFile(OptionsFileName(db_directory_.path(), number));
    if (status.ok()) status = removed;
  }
  mutex_.Lock();
  // The next change of the families tries again.
  has_options_files_ = !status.ok();
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarn, &log_,
      "RocksDB's files of options are removed: %s", status.ToString().c_str());
}

Status DBImpl::DropColumnFamily(ColumnFamilyHandle* handle) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(families_, handle);
  if (family == nullptr) return ForeignHandleError();
  if (read_only_) return ReadOnlyError();
  if (family == &family_) {
    return Status::InvalidArgument("the default column family stays");
  }
  // Without space, a drop still needs only an edit, and frees some.
  Status status = ResumeIfFull();
  if (!status.ok() && !status.IsNoSpace()) return status;
  {
    // In a child made by fork() the queue may never come to its end.
    MutexLock lock(&mutex_);
    if (control_.inheritance().is_inherited()) return status;
  }
  const WriteQueue::Exclusive leader(&write_queue_);
  MutexLock lock(&mutex_);
  status = WritableLocked();
  if (!status.ok() && !status.IsNoSpace()) return status;
  if (family->is_dropped()) {
    return Status::InvalidArgument("column family " + family->name(),
                                   "was dropped before");
  }
  RemoveOptionsFilesLocked();
  status = versions_->DropFamilyLocked(family->versions());
  if (!status.ok()) {
    control_.SetErrorLocked(status, "dropping a column family");
    events_.DeliverLocked();
    return status;
  }
  Log(LogLevel::kInfo, &log_, "dropped column family %s, id %u",
      family->name().c_str(), family->id());
  family->SetDroppedLocked();
  families_.DropLocked(family);
  // Logs that only this family needed go now, its tables with the last user.
  wals_.ReleaseLocked(versions_->FirstLogNumberLocked());
  control_.log_bound().UpdateLogSizeLocked();
  control_.UpdateGateLocked();
  scheduler_.SignalLocked();
  jobs_.PurgeLocked();
  events_.DeliverLocked();
  return status;
}

}  // namespace varve
