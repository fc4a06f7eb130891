// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Options of an open database: changed, asked for, and written to OPTIONS
// files (docs/option_files.md).

#include "db/engine/db_impl.h"
#include "db/family/common_errors.h"
#include "db/option_files/options_lines.h"
#include "db/options/options_check.h"
#include "db/options/options_update.h"

namespace varve {

Status DBImpl::SetOptions(ColumnFamilyHandle* handle,
                          const std::map<std::string, std::string>& changes) {
  ColumnFamily* const family = FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return ForeignHandleError();
  if (core_.is_read_only) return ReadOnlyError();
  {
    // Leadership: leaders read some of them without the mutex.
    const WriteQueue::Exclusive leader(&core_.write_queue);
    MutexLock lock(core_.mutex());
    if (core_.control.IsClosedLocked()) return ClosedError();
    Options changed = family->options();
    Status status = UpdateOptions(changes, OptionScope::kFamily, &changed);
    if (status.ok()) status = CheckOptions(changed);
    if (!status.ok()) return status;
    RaiseNumbers(&changed);
    const bool has_new_extractor =
        changed.prefix_extractor != family->options().prefix_extractor;
    // Other fields are read without the mutex, so none but these is written.
    CopyChangeable(OptionScope::kFamily, changed, family->mutable_options());
    // Reads have the extractor from there.
    if (has_new_extractor) core_.control.InstallSuperVersionLocked(family);
    core_.log_bound.UpdateLogSizeLocked();
    family->pace().MakeDueLocked();  // The log may have less space.
    NoteChangesLocked(family->name(), changes);
    core_.control.UpdateStallLocked(family);
    age_watch_.StartLocked();
    core_.jobs.StartDueLocked();
    core_.scheduler.SignalLocked();
    core_.events.DeliverLocked();
  }
  UpdateOptionsFile();
  return Status::OK();
}

Status DBImpl::SetDBOptions(const std::map<std::string, std::string>& changes) {
  if (core_.is_read_only) return ReadOnlyError();
  if (core_.IsOfCatalog() && changes.contains("max_open_files")) {
    return Status::NotSupported("max_open_files is the catalog's");
  }
  {
    // As in SetOptions.
    const WriteQueue::Exclusive leader(&core_.write_queue);
    int max_open_files = 0;
    {
      MutexLock lock(core_.mutex());
      if (core_.control.IsClosedLocked()) return ClosedError();
      Options changed = core_.options;
      Status status = UpdateOptions(changes, OptionScope::kDatabase, &changed);
      if (status.ok()) status = CheckOptions(changed);
      if (!status.ok()) return status;
      RaiseNumbers(&changed);
      // Each family has the database's options, too.
      core_.families.ForEachUsedLocked([&](ColumnFamily* family) {
        CopyChangeable(OptionScope::kDatabase, changed,
                       family->mutable_options());
      });
      max_open_files = changed.max_open_files;
      NoteChangesLocked("database", changes);
      RaiseThreadsLocked();
      core_.log_bound.UpdateLogSizeLocked();
      for (ColumnFamily* const family : core_.families.live()) {
        family->pace().MakeDueLocked();
      }
      core_.jobs.StartDueLocked();
      core_.scheduler.SignalLocked();
      core_.events.DeliverLocked();
    }
    if (!core_.IsOfCatalog()) {
      core_.file_pool->SetMaxOpenFiles(max_open_files);
    }
  }
  UpdateOptionsFile();
  return Status::OK();
}

void DBImpl::NoteChangesLocked(
    const std::string& changed,
    const std::map<std::string, std::string>& changes) {
  for (const auto& [name, value] : changes) {
    Log(LogLevel::kInfo, &core_.log, "[%s] option %s is now %s",
        changed.c_str(), name.c_str(), value.c_str());
  }
}

Env* DBImpl::GetEnv() const { return core_.directory.given_env(); }

Options DBImpl::GetOptions(ColumnFamilyHandle* handle) const {
  const ColumnFamily* const family =
      FamilyHandle::FamilyOf(core_.families, handle);
  if (family == nullptr) return {};
  Options options;
  {
    MutexLock lock(core_.mutex());
    options = Options(core_.options, family->options());
  }
  options.env = GetEnv();
  return options;
}

DBOptions DBImpl::GetDBOptions() const { return GetOptions(nullptr); }

OptionsDocument DBImpl::PresentOptionsLocked() const {
  OptionsDocument document;
  document.database = LinesOf(OptionSection::kDatabase, core_.options);
  for (const ColumnFamily* const family : core_.families.live()) {
    document.families.push_back(
        FamilyLinesOf(family->name(), family->options()));
  }
  return document;
}

// Writes an OPTIONS file if the newest one does not have the present options.
// The database's files do not depend on it, so that errors are only logged.
// Call it after each change, and without leadership.
void DBImpl::UpdateOptionsFile() {
  // A catalog has the options of its databases.
  if (core_.is_read_only || core_.IsOfCatalog()) return;
  const MutexLock one_at_a_time(&options_files_mutex_);
  OptionsDocument document;
  bool keeps_old = false;
  {
    MutexLock lock(core_.mutex());
    // The directory may be another process's.
    if (core_.control.is_closing() ||
        core_.control.inheritance().is_inherited()) {
      return;
    }
    document = PresentOptionsLocked();
    keeps_old = core_.obsolete.is_held();  // Files are being copied.
  }
  Status status = core_.directory.Verify();
  if (status.ok()) {
    status = options_files_.Write(document, [this] {
      MutexLock lock(core_.mutex());
      return core_.versions->NewFileNumber();
    });
    if (!status.ok()) options_files_.RemoveUnlessOf(document).IgnoreError();
    if (status.ok() && !keeps_old) options_files_.RemoveOld();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarn, &core_.log, "no OPTIONS file was written: %s",
        status.ToString().c_str());
  }
}

}  // namespace varve
