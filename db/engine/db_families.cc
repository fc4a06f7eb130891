// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Column families: created and dropped.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/options/options_check.h"
#include "db/options/options_update.h"
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
  std::vector<ColumnFamilyHandle*> handles;
  Status status = CreateColumnFamilies({{name, options}}, &handles);
  if (status.ok()) *handle = handles.front();
  return status;
}

Status DBImpl::CreateColumnFamilies(
    const std::vector<ColumnFamilyDescriptor>& wanted,
    std::vector<ColumnFamilyHandle*>* handles) {
  return AddFamilies(wanted, nullptr, handles);
}

// `tables`, if not null, adds tables to the only family.
Status DBImpl::AddFamilies(const std::vector<ColumnFamilyDescriptor>& wanted,
                           VersionEdit* tables,
                           std::vector<ColumnFamilyHandle*>* handles) {
  if (core_.is_read_only) return ReadOnlyError();
  Status refused;  // The first family that cannot be created.
  std::vector<std::unique_ptr<ColumnFamily>> families =
      NewFamilies(wanted, &refused);
  if (families.empty()) return refused;
  Status status = admission_.ResumeIfFull();
  std::vector<ColumnFamily*> added;
  std::vector<std::unique_ptr<ColumnFamily>> unused;
  {
    const WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    if (status.ok()) status = core_.control.WritableLocked();
    std::set<std::string> names;
    for (const ColumnFamily* live : core_.families.live())
      names.insert(live->name());
    const auto may_add = [&](const std::string& name) {
      if (!names.insert(name).second) {
        refused = Status::InvalidArgument("column family " + name, "exists");
        return false;
      }
      if (names.size() > kMaxFamilies) {
        refused = Status::NotSupported("too many column families");
        return false;
      }
      return true;
    };
    while (status.ok() && added.size() < families.size() &&
           may_add(families[added.size()]->name())) {
      added.push_back(families[added.size()].get());
    }
    const auto end =
        families.begin() + static_cast<std::ptrdiff_t>(added.size());
    std::move(end, families.end(), std::back_inserter(unused));
    families.erase(end, families.end());
    if (!added.empty()) {
      status = AddFamiliesLocked(std::move(families), tables);
      age_watch_.StartLocked();
      // Nobody can drop them before their handles exist.
      core_.events.DeliverLocked();
    }
  }
  for (const auto& family : unused) family->Close();
  if (!status.ok()) return status;
  for (ColumnFamily* const family : added) {
    family->memtables().JoinBudget();
    handles->push_back(new FamilyHandle(family, handles_, true));
  }
  if (!added.empty()) UpdateOptionsFile();
  return refused;
}

std::vector<std::unique_ptr<ColumnFamily>> DBImpl::NewFamilies(
    const std::vector<ColumnFamilyDescriptor>& wanted, Status* status) {
  std::vector<std::unique_ptr<ColumnFamily>> families;
  for (const auto& [name, options] : wanted) {
    if (name.empty()) {
      *status = Status::InvalidArgument("a column family has no name");
    } else if (core_.IsOfCatalog()) {
      *status = Status::NotSupported(
          "a catalog's database has only the default column family");
    } else {
      *status = CheckOptions(Options(GetDBOptions(), options));
    }
    if (!status->ok()) break;
    families.push_back(core_.NewFamily(name, options));
  }
  return families;
}

// For the leader of the queue, and for Open.
Status DBImpl::AddFamiliesLocked(
    std::vector<std::unique_ptr<ColumnFamily>> families, VersionEdit* tables) {
  const uint64_t log_number = core_.wals.NewestLocked();
  std::vector<FamilyVersions*> versions;
  for (const auto& family : families) versions.push_back(family->versions());
  Status status =
      core_.versions->CreateFamiliesLocked(versions, log_number, tables);
  if (!status.ok()) {
    core_.control.SetErrorLocked(status, "creating a column family");
    core_.mutex()->Unlock();
    for (const auto& family : families) family->Close();
    core_.mutex()->Lock();
    for (FamilyVersions* added : versions) {
      core_.versions->RemoveFamilyLocked(added);
    }
    return status;
  }
  const TableOutputContext& context = *core_.default_family.output_context();
  const size_t count = core_.families.live().size() + families.size();
  for (auto& family : families) {
    ColumnFamily* const added = family.get();
    // They may have changed since the family was made.
    CopyChangeable(OptionScope::kDatabase, core_.options,
                   added->mutable_options());
    added->SetOutputContext(context.db_path, context.db_identity,
                            context.session_identity);
    added->memtables().BeginLocked(added->memtables().New(log_number, count),
                                   {});
    core_.families.AddLocked(std::move(family));
    core_.control.InstallSuperVersionLocked(added);
    Log(LogLevel::kInfo, &core_.log, "created column family %s, id %u",
        added->name().c_str(), added->id());
  }
  if (tables != nullptr) {
    OutsideChange change;
    change.first = core_.versions->LastSequence() + 1;
    change.last = *tables->last_sequence();
    if (change.first <= change.last) {
      for (const auto& [level, file] : tables->new_files()) {
        change.files.push_back({core_.families.live().back()->id(),
                                TableFileName("", file.number), ""});
      }
      flusher_.LogOutsideLocked(change);
      core_.versions->SetLastSequence(change.last);
      core_.publications.Wake();
    }
  }
  core_.log_bound.UpdateLogSizeLocked();
  return status;
}

Status DBImpl::DropColumnFamily(ColumnFamilyHandle* handle) {
  return DropColumnFamilies({handle});
}

Status DBImpl::DropColumnFamilies(
    const std::vector<ColumnFamilyHandle*>& handles) {
  for (ColumnFamilyHandle* const handle : handles) {
    if (FamilyHandle::FamilyOf(core_.families, handle) == nullptr) {
      return ForeignHandleError();
    }
  }
  if (core_.is_read_only) return ReadOnlyError();
  bool dropped = false;
  Status status = DropFamilies(handles, &dropped);
  if (dropped) UpdateOptionsFile();
  return status;
}

// Sets *any_dropped if it drops a family, even if it returns an error.
Status DBImpl::DropFamilies(const std::vector<ColumnFamilyHandle*>& handles,
                            bool* any_dropped) {
  // Without space, a drop still needs only an edit, and frees some.
  Status status = admission_.ResumeIfFull();
  if (!status.ok() && !IsSpaceError(status)) return status;
  {
    // In a child made by fork() the queue may never come to its end.
    MutexLock lock(core_.mutex());
    if (core_.control.inheritance().is_inherited()) return status;
  }
  const WriteQueue::Exclusive leader(&core_.write_queue);
  MutexLock lock(core_.mutex());
  status = core_.control.WritableLocked();
  if (!status.ok() && !IsSpaceError(status)) return status;
  Status refused;  // The first family that cannot be dropped.
  std::vector<ColumnFamily*> dropped;
  std::vector<FamilyVersions*> versions;
  std::set<ColumnFamily*> seen;
  for (ColumnFamilyHandle* const handle : handles) {
    ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
    if (family == &core_.default_family) {
      refused = Status::InvalidArgument("the default column family stays");
    } else if (family->is_dropped() || !seen.insert(family).second) {
      refused = Status::InvalidArgument("column family " + family->name(),
                                        "was dropped before");
    }
    if (!refused.ok()) break;
    dropped.push_back(family);
    versions.push_back(family->versions());
  }
  if (dropped.empty()) return refused;
  status = core_.versions->DropFamiliesLocked(versions);
  if (!status.ok()) {
    core_.control.SetErrorLocked(status, "dropping a column family");
    core_.events.DeliverLocked();
    return status;
  }
  *any_dropped = true;
  for (ColumnFamily* const family : dropped) {
    Log(LogLevel::kInfo, &core_.log, "dropped column family %s, id %u",
        family->name().c_str(), family->id());
    family->SetDroppedLocked();
    core_.families.DropLocked(family);
  }
  // Logs that only these families needed go now, their tables with the last
  // user.
  flusher_.ReleaseLogsLocked();
  core_.log_bound.UpdateLogSizeLocked();
  core_.control.UpdateGateLocked();
  core_.scheduler.SignalLocked();
  core_.jobs.PurgeLocked();
  core_.events.DeliverLocked();
  return refused;
}

}  // namespace varve
