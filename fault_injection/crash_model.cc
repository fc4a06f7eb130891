// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "fault_injection/crash_model.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace varve {

namespace {

constexpr uint64_t kSectorBytes = 512;

std::string Normalize(const std::string& path) {
  std::string result = path.starts_with('/') ? "/" : "";
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (component.empty() || component == ".") continue;
    if (!result.empty() && result.back() != '/') result.push_back('/');
    result.append(component);
  }
  return result;
}

// Returns the parent of a normalized path.
std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  return path.substr(0, std::max<size_t>(slash, 1));
}

bool IsInside(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         path[directory.size()] == '/';
}

// Replaces the directory `source` in *path by `target`, if *path is inside it.
void Move(const std::string& source, const std::string& target,
          std::string* path) {
  if (IsInside(*path, source)) path->replace(0, source.size(), target);
}

bool IsDirectory(Env* env, const std::string& path) {
  std::vector<std::string> names;
  return env->GetChildren(path, &names).ok();
}

}  // namespace

CrashModel::Operation::Operation(Kind its_kind, std::string its_target,
                                 std::string its_source)
    : kind(its_kind),
      target(std::move(its_target)),
      source(std::move(its_source)) {}

bool CrashModel::Needs(const Operation& later, const Operation& earlier) {
  const bool makes_directory =
      earlier.kind == Kind::kCreateDir || earlier.kind == Kind::kRename;
  const bool replaces_directory = later.displaced == Displaced::kDirectory;
  for (const std::string* mine : {&later.source, &later.target}) {
    if (mine->empty()) continue;
    if (*mine == earlier.source || *mine == earlier.target) return true;
    if (makes_directory && IsInside(*mine, earlier.target)) return true;
  }
  // The directory had to be emptied first.
  return replaces_directory && (IsInside(earlier.source, later.target) ||
                                IsInside(earlier.target, later.target));
}

void CrashModel::Note(Operation operation) {
  for (const auto& [id, earlier] : pending_) {
    if (Needs(operation, earlier)) operation.needs.push_back(id);
  }
  pending_.emplace(next_id_++, std::move(operation));
}

void CrashModel::MakeSafe(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const std::vector<uint64_t> needs = std::move(found->second.needs);
  pending_.erase(found);
  for (const uint64_t needed : needs) MakeSafe(needed);
}

Status CrashModel::StateOf(const std::string& path, FileRef* state) {
  const auto found = files_.find(path);
  if (found != files_.end()) {
    *state = found->second;
    return Status::OK();
  }
  auto fresh = std::make_shared<FileState>();
  Status status = base_->GetFileSize(path, &fresh->size);
  if (!status.ok()) return status;
  fresh->synced_size = fresh->size;
  files_[path] = fresh;
  *state = std::move(fresh);
  return Status::OK();
}

Status CrashModel::NoteCut(const std::string& path, uint64_t size,
                           FileState* state) {
  if (size < state->synced_size && !state->was_cut) {
    Status status = ReadFileToString(base_, path, &state->bytes_before_cut);
    if (!status.ok()) return status;
    state->bytes_before_cut.resize(static_cast<size_t>(state->synced_size));
    state->was_cut = true;
  }
  state->size = size;
  state->synced_size = std::min(state->synced_size, size);
  return Status::OK();
}

Status CrashModel::SaveDisplaced(const std::string& path,
                                 Operation* operation) {
  if (IsDirectory(base_, path)) {
    operation->displaced = Displaced::kDirectory;
    return Status::OK();
  }
  Status status = ReadFileToString(base_, path, &operation->displaced_bytes);
  if (!status.ok()) return status;
  operation->displaced = Displaced::kFile;
  const auto found = files_.find(path);
  if (found != files_.end()) {
    operation->displaced_state = std::make_shared<FileState>(*found->second);
  }
  return Status::OK();
}

void CrashModel::MoveFiles(const std::string& source,
                           const std::string& target) {
  std::map<std::string, FileRef> moved;
  for (auto& [path, state] : files_) {
    if (path == target) continue;
    std::string new_path = path == source ? target : path;
    Move(source, target, &new_path);
    moved[new_path] = std::move(state);
  }
  files_ = std::move(moved);
  for (const std::weak_ptr<DirectoryState>& weak : directories_) {
    const DirectoryRef directory = weak.lock();
    if (directory == nullptr) continue;
    if (directory->path == source) directory->path = target;
    Move(source, target, &directory->path);
  }
}

std::vector<uint64_t> CrashModel::MoveOperations(const std::string& source,
                                                 const std::string& target) {
  std::vector<uint64_t> moved;
  for (auto& [id, operation] : pending_) {
    if (!IsInside(operation.source, source) &&
        !IsInside(operation.target, source)) {
      continue;
    }
    Move(source, target, &operation.source);
    Move(source, target, &operation.target);
    moved.push_back(id);
  }
  return moved;
}

Status CrashModel::NewWritableFile(const std::string& raw_path,
                                   const FileOptions& options,
                                   std::unique_ptr<WritableFile>* file,
                                   FileRef* state) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  Operation operation(Kind::kCreate, path, "");
  Status status;
  if (base_->FileExists(path).ok()) status = SaveDisplaced(path, &operation);
  if (status.ok()) status = base_->NewWritableFile(path, options, file);
  if (!status.ok()) return status;
  *state = files_[path] = std::make_shared<FileState>();
  Note(std::move(operation));
  return status;
}

Status CrashModel::LockFile(const std::string& raw_path,
                            std::unique_ptr<FileLock>* file_lock) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  const bool existed = base_->FileExists(path).ok();
  Status status = base_->LockFile(path, file_lock);
  if (status.ok() && !existed) {
    files_[path] = std::make_shared<FileState>();
    Note(Operation(Kind::kCreate, path, ""));
  }
  return status;
}

Status CrashModel::RemoveFile(const std::string& raw_path) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  Operation operation(Kind::kRemove, path, "");
  Status status = SaveDisplaced(path, &operation);
  if (status.ok()) status = base_->RemoveFile(path);
  if (!status.ok()) return status;
  files_.erase(path);
  Note(std::move(operation));
  return status;
}

Status CrashModel::CreateDirIfMissing(const std::string& raw_path) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  const bool existed = base_->FileExists(path).ok();
  Status status = base_->CreateDirIfMissing(path);
  if (status.ok() && !existed) {
    Note(Operation(Kind::kCreateDir, path, ""));
  }
  return status;
}

Status CrashModel::RemoveDir(const std::string& raw_path) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  Status status = base_->RemoveDir(path);
  if (!status.ok()) return status;
  Operation operation(Kind::kRemoveDir, path, "");
  operation.displaced = Displaced::kDirectory;
  Note(std::move(operation));
  return status;
}

Status CrashModel::RenameFile(const std::string& raw_source,
                              const std::string& raw_target) {
  const std::string source = Normalize(raw_source);
  const std::string target = Normalize(raw_target);
  MutexLock lock(&mu_);
  const auto from = files_.find(source);
  const auto to = files_.find(target);
  const bool same_file =
      source == target || (from != files_.end() && to != files_.end() &&
                           from->second == to->second);
  // Two names of one file: nothing changes.
  if (same_file) return base_->RenameFile(source, target);

  Operation operation(Kind::kRename, target, source);
  Status status;
  if (base_->FileExists(target).ok()) {
    status = SaveDisplaced(target, &operation);
  }
  if (status.ok()) status = base_->RenameFile(source, target);
  if (!status.ok()) return status;
  MoveFiles(source, target);
  operation.moved = MoveOperations(source, target);
  Note(std::move(operation));
  return status;
}

Status CrashModel::LinkFile(const std::string& raw_source,
                            const std::string& raw_target) {
  const std::string source = Normalize(raw_source);
  const std::string target = Normalize(raw_target);
  MutexLock lock(&mu_);
  Status status = base_->LinkFile(source, target);
  if (!status.ok()) return status;
  FileRef state;
  status = StateOf(source, &state);
  if (!status.ok()) return status;
  files_[target] = std::move(state);
  Note(Operation(Kind::kLink, target, ""));
  return status;
}

Status CrashModel::SyncFile(const std::string& raw_path, Status status) {
  const std::string path = Normalize(raw_path);
  FileRef state;
  {
    MutexLock lock(&mu_);
    if (status.ok()) status = base_->SyncFile(path);
    const Status found = StateOf(path, &state);
    if (!found.ok()) return status.ok() ? found : status;
  }
  NoteSync(state, status.ok());
  return status;
}

Status CrashModel::Truncate(const std::string& raw_path, uint64_t size) {
  const std::string path = Normalize(raw_path);
  MutexLock lock(&mu_);
  FileRef state;
  Status status = StateOf(path, &state);
  if (status.ok()) status = NoteCut(path, size, state.get());
  if (status.ok()) status = base_->Truncate(path, size);
  return status;
}

Status CrashModel::Append(const FileRef& state, WritableFile* file,
                          const Slice& data) {
  MutexLock lock(&mu_);
  Status status = file->Append(data);
  // No data may wait in the base's buffer: a Close after the crash would write
  // them.
  if (status.ok()) status = file->Flush();
  if (status.ok()) state->size = std::max(state->size, file->Size());
  return status;
}

void CrashModel::NoteSync(const FileRef& state, bool succeeded) {
  MutexLock lock(&mu_);
  if (!succeeded && state->size > state->synced_size) {
    state->lost_dirty_pages = true;
  }
  if (!succeeded || state->lost_dirty_pages) return;
  state->synced_size = state->size;
  state->was_cut = false;
  state->bytes_before_cut.clear();
}

CrashModel::DirectoryRef CrashModel::OpenDirectory(const std::string& path) {
  auto directory = std::make_shared<DirectoryState>();
  directory->path = Normalize(path);
  MutexLock lock(&mu_);
  std::erase_if(directories_, [](const auto& weak) { return weak.expired(); });
  directories_.push_back(directory);
  return directory;
}

void CrashModel::NoteSync(const DirectoryRef& directory, bool succeeded) {
  MutexLock lock(&mu_);
  const std::string& path = directory->path;
  std::vector<uint64_t> safe;
  for (auto& [id, operation] : pending_) {
    const bool makes_path =
        operation.kind == Kind::kCreateDir &&
        (operation.target == path || IsInside(path, operation.target));
    if (succeeded && makes_path) safe.push_back(id);
    if (Parent(operation.target) != path) continue;
    if (!succeeded) operation.sync_failed = true;
    if (!operation.sync_failed) safe.push_back(id);
  }
  for (const uint64_t id : safe) MakeSafe(id);
}

Status CrashModel::Crash(const CrashOptions& options) {
  MutexLock lock(&mu_);
  Random random(options.seed);
  Status status = UndoOperations(options, &random);
  std::set<const FileState*> done;
  for (const auto& [path, state] : files_) {
    if (!status.ok()) break;
    // A file with two names is damaged once.
    if (!done.insert(state.get()).second) continue;
    status = LoseBytes(path, *state, options, &random);
  }
  files_.clear();
  pending_.clear();
  return status;
}

Status CrashModel::UndoOperations(const CrashOptions& options, Random* random) {
  if (!options.drop_directory_entries) return Status::OK();
  // Sometimes all or none survive: the ends of the range would be rare
  // otherwise.
  const uint64_t surviving_of_4 =
      options.lose_everything_unsynced ? 0 : random->Uniform(5);
  std::set<uint64_t> undone;
  for (const auto& [id, operation] : pending_) {
    bool survives = random->Uniform(4) < surviving_of_4;
    for (const uint64_t needed : operation.needs) {
      if (undone.contains(needed)) survives = false;
    }
    if (!survives) undone.insert(id);
  }
  for (auto it = undone.rbegin(); it != undone.rend(); ++it) {
    const auto found = pending_.find(*it);
    const Operation operation = std::move(found->second);
    pending_.erase(found);
    Status status = Undo(operation);
    if (!status.ok()) return status.Annotate("undoing what a crash lost");
  }
  return Status::OK();
}

Status CrashModel::Undo(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kCreate:
    case Kind::kLink: {
      files_.erase(operation.target);
      Status status = base_->RemoveFile(operation.target);
      return status.ok() ? RestoreDisplaced(operation) : status;
    }
    case Kind::kCreateDir:
      return base_->RemoveDir(operation.target);
    case Kind::kRemove:
    case Kind::kRemoveDir:
      return RestoreDisplaced(operation);
    case Kind::kRename:
      break;
  }
  Status status = base_->RenameFile(operation.target, operation.source);
  if (!status.ok()) return status;
  MoveFiles(operation.target, operation.source);
  for (const uint64_t id : operation.moved) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) continue;
    Move(operation.target, operation.source, &found->second.source);
    Move(operation.target, operation.source, &found->second.target);
  }
  return RestoreDisplaced(operation);
}

Status CrashModel::RestoreDisplaced(const Operation& operation) {
  switch (operation.displaced) {
    case Displaced::kNothing:
      return Status::OK();
    case Displaced::kDirectory:
      return base_->CreateDirIfMissing(operation.target);
    case Displaced::kFile:
      break;
  }
  if (operation.displaced_state != nullptr) {
    // Separate from its other names, if it has any: the base can only restore
    // the file's bytes, not its name.
    files_[operation.target] = operation.displaced_state;
  }
  return WriteStringToFile(base_, operation.displaced_bytes, operation.target,
                           /*sync=*/false);
}

Status CrashModel::LoseBytes(const std::string& path, const FileState& state,
                             const CrashOptions& options, Random* random) {
  const bool unlucky = options.lose_everything_unsynced;
  if (state.was_cut && (unlucky || random->OneIn(2))) {
    return WriteStringToFile(base_, state.bytes_before_cut, path,
                             /*sync=*/false);
  }
  if (state.size <= state.synced_size) return Status::OK();
  const uint64_t unsynced_bytes = state.size - state.synced_size;
  uint64_t kept_bytes = 0;
  if (!unlucky && !random->OneIn(4)) {
    kept_bytes =
        random->OneIn(3) ? unsynced_bytes : random->Uniform(unsynced_bytes + 1);
  }
  const uint64_t size = state.synced_size + kept_bytes;
  Status status = base_->Truncate(path, size);
  if (!status.ok() || !options.tear_sectors || kept_bytes == 0 ||
      random->OneIn(2)) {
    return status;
  }

  std::string bytes;
  status = ReadFileToString(base_, path, &bytes);
  if (!status.ok()) return status;
  uint64_t start = state.synced_size;
  while (start < size) {
    const uint64_t end =
        std::min(size, (start / kSectorBytes + 1) * kSectorBytes);
    const uint64_t fate = random->Uniform(8);
    for (uint64_t i = start; i < end && fate < 2; ++i) {
      bytes[static_cast<size_t>(i)] =
          fate == 0 ? '\0' : static_cast<char>(random->Next() & 0xff);
    }
    start = end;
  }
  return WriteStringToFile(base_, bytes, path, /*sync=*/false);
}

}  // namespace varve
