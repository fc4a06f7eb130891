// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/ingestion/taken_files.h"

#include "db/directory/file_copy.h"
#include "env/file_names.h"

namespace varve {

// The path may lead there through links.
bool MayBeOwnTable(const DbDirectory& directory, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  uint64_t number = 0;
  FileKind kind;
  if (!ParseFileName(name, &number, &kind) ||
      (kind != FileKind::kTable && kind != FileKind::kLevelDbTable)) {
    return false;
  }
  uint64_t size = 0;
  uint64_t own_size = 0;
  Env* const env = directory.env();
  return env->GetFileSize(directory.path() + "/" + name, &own_size).ok() &&
         env->GetFileSize(path, &size).ok() && size == own_size;
}

TakenFiles::~TakenFiles() {
  for (const std::string& name : names_) {
    core_.env->RemoveFile(name).IgnoreError();  // Else the next open does it.
  }
}

void TakenFiles::RemoveOriginals() {
  for (const std::string& path : originals_) {
    const Status removed = core_.env->RemoveFile(path);
    if (removed.ok()) continue;
    Log(LogLevel::kWarn, &core_.log, "%s was taken in, but stays: %s",
        path.c_str(), removed.ToString().c_str());
  }
}

Status TakenFiles::Reserve(const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    request.table->file.number = core_.versions->NewFileNumber();
  }
  MutexLock lock(core_.mutex());
  Status status = core_.control.WritableLocked();
  if (!status.ok()) return status;
  VersionEdit edit;
  status = core_.versions->LogAndApply(core_.default_family.versions(), &edit);
  if (!status.ok()) {
    core_.control.SetErrorLocked(status, "reserving numbers of tables");
    core_.events.DeliverLocked();
  }
  return status;
}

Status TakenFiles::TakeOne(const Request& request) {
  const ExternalTable& table = *request.table;
  names_.push_back(TableFileName(core_.directory.path(), table.file.number));
  const std::string& name = names_.back();
  Status status = Status::NotSupported("");
  if (request.link) {
    status = core_.env->LinkFile(table.path, name);
    // Its writer may not have synced it.
    if (status.ok()) status = core_.env->SyncFile(name);
    if (!status.IsNotSupported() || !request.copies_if_not_linked) {
      return status;
    }
  }
  // It replaces a link that cannot be synced.
  return CopyFile(core_.env, table.path, name, table.file.file_size,
                  core_.options.rate_limiter.get());
}

Status TakenFiles::Take(const std::vector<Request>& requests) {
  Status status = Reserve(requests);
  if (status.ok()) status = core_.directory.Verify();
  for (const Request& request : requests) {
    if (status.ok()) status = TakeOne(request);
    if (request.moves) originals_.push_back(request.table->path);
  }
  return status.ok() ? core_.directory.directory()->Sync() : status;
}

}  // namespace varve
