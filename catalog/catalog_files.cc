// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// The catalog's directory: opening it, and creating and removing databases. A
// database exists if its directory does. A database without CURRENT is empty.
// Removal renames the directory, which frees the name. It then deletes as much
// of it as possible, now or at the next Open.

#include <algorithm>

#include "catalog/catalog_impl.h"
#include "catalog/catalog_names.h"
#include "env/file_names.h"

namespace varve {

namespace {

// Returns whether the path is certainly a file. A database's directory, which
// may be a link, is not. If this cannot be determined, returns false, so that
// no part of a database is missed.
bool IsFile(Env* env, const std::string& path) {
  std::unique_ptr<SequentialFile> file;
  return env->NewSequentialFile(path, FileOptions(), &file).ok();
}

// Removes files that a repair or recovery has moved aside.
void RemoveLost(Env* env, const std::string& directory) {
  // A link would lead to files of others.
  if (!env->CreateDirIfMissing(directory).ok()) return;
  std::vector<std::string> names;
  if (!env->GetChildren(directory, &names).ok()) return;
  for (const std::string& name : names) {
    env->RemoveFile(directory + "/" + name).IgnoreError();  // See above.
  }
  env->RemoveDir(directory).IgnoreError();  // See above.
}

}  // namespace

std::string CatalogImpl::PathOf(const CatalogEntry& entry) const {
  return root_ + "/" + DatabaseDirectory(entry.name);
}

Status CatalogImpl::Open(bool create_if_missing) {
  // The creator of the lock file had made the directory's name durable before.
  Status status = env_->FileExists(LockFileName(root_));
  if (status.IsNotFound()) {
    status = MakeSafeDirectory(env_, root_, create_if_missing);
  }
  if (status.ok() && directory_env_ != nullptr) status = directory_env_->Hold();
  if (status.ok()) status = env_->LockFile(LockFileName(root_), &lock_);
  if (status.ok()) status = env_->NewDirectory(root_, &directory_);
  std::vector<std::string> children;
  if (status.ok()) status = env_->GetChildren(root_, &children);
  std::vector<std::string> dropped;
  MutexLock lock(&mutex_);
  for (const std::string& child : children) {
    std::string name;
    uint64_t number = 0;
    if (ParseDatabaseDirectory(child, &name)) {
      if (AddLocked(name) == nullptr) {
        status = Status::NotSupported(root_, "holds too many databases");
      }
    } else if (ParseDroppedDirectory(child, &number)) {
      next_dropped_ = std::max(next_dropped_, number + 1);
      const std::string path = root_ + "/" + child;
      if (!IsFile(env_, path)) dropped.push_back(path);
    }
  }
  if (status.ok()) status = RemoveAllDropped(dropped);
  if (status.ok()) AddDescriptorOwner(this);
  if (!status.ok() && lock_ != nullptr) {
    env_->UnlockFile(std::move(lock_)).IgnoreError();  // Open failed already.
  }
  return status;
}

CatalogEntry* CatalogImpl::AddLocked(const std::string& folded) {
  uint32_t index = next_index_;
  if (!free_indexes_.empty()) {
    index = free_indexes_.back();
    free_indexes_.pop_back();
  } else if (next_index_ < DistributedRefCounts::kMaxIndexes) {
    ++next_index_;
  } else {
    return nullptr;
  }
  auto entry = std::make_unique<CatalogEntry>();
  entry->references = &references_;
  entry->index = index;
  entry->name = folded;
  return (entries_[folded] = std::move(entry)).get();
}

void CatalogImpl::EraseLocked(CatalogEntry* entry) {
  free_indexes_.push_back(entry->index);
  const auto found = entries_.find(entry->name);
  // A read-side critical section may have the entry from a cached name that was
  // forgotten since.
  Retire(found->second.release(),
         [](void* erased) { delete static_cast<CatalogEntry*>(erased); });
  entries_.erase(found);
  changed_.SignalAll();
}

Status CatalogImpl::Create(const Slice& name) {
  const FoldedKey folded(name, folding_);
  if (!folded.ok()) return UnfoldableText("name: it", Slice());
  Status status = CheckDatabaseName(folded.slice());
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  CatalogEntry* entry = AwaitLocked(folded.slice());
  if (entry != nullptr) {
    if (!entry->is_leaving) {
      return Status::InvalidArgument("there is a database of that name", name);
    }
    status = RemoveLocked(entry);
    if (!status.ok()) return status;
  }
  entry = AddLocked(folded.slice().ToString());
  if (entry == nullptr) return Status::NotSupported("too many databases");
  const std::string path = PathOf(*entry);
  status = env_->FileExists(path);
  if (status.ok()) {
    // Another process has created it. From now on it can be found.
    return Status::InvalidArgument(path, "exists already");
  }
  if (!status.IsNotFound()) {
    EraseLocked(entry);
    return status;
  }
  status = OpenLocked(entry, true);
  if (status.ok()) return status;
  entry->is_leaving = true;
  RemoveLocked(entry).IgnoreError();  // The next Create or Drop tries again.
  return status;
}

Status CatalogImpl::MakeDirectory(const std::string& path) {
  const MutexLock lock(&root_mutex_);
  Status status = env_->CreateDirIfMissing(path);
  // Otherwise a power loss may remove the directory with all synced files in
  // it.
  return status.ok() ? directory_->Sync() : status;
}

Status CatalogImpl::Drop(const Slice& name) {
  const FoldedKey folded(name, folding_);
  if (!folded.ok()) return UnfoldableText("name: it", Slice());
  CatalogEntry* entry;
  {
    MutexLock lock(&mutex_);
    entry = AwaitLocked(folded.slice());
    if (entry == nullptr) return NoSuchDatabase(folded.slice());
    RetractLocked(entry);
    name_cache_.Forget(entry);
  }
  HeavyBarrier();  // T3, as in CloseIdle.
  Status status;
  if (!AwaitReferences(*entry, drop_timeout_us_)) {
    status = Status::Busy("references are still out", name);
  } else if (entry->db != nullptr) {
    // Busy, or a pending error of the database.
    status = CloseDatabase(entry);
  }
  MutexLock lock(&mutex_);
  if (entry->db == nullptr) return RemoveLocked(entry);
  PutBackLocked(entry);
  return status;
}

Status CatalogImpl::RemoveLocked(CatalogEntry* entry) {
  entry->state = CatalogEntry::State::kEnding;
  // A directory that is already aside is renamed again: after a failed sync the
  // kernel writes only later changes.
  const std::string from = entry->aside.empty() ? PathOf(*entry) : entry->aside;
  const std::string aside = root_ + "/" + DroppedDirectory(next_dropped_++);
  mutex_.Unlock();
  // Another process may have opened it by its path.
  std::unique_ptr<FileLock> file_lock;
  Status status = env_->LockFile(LockFileName(from), &file_lock);
  root_mutex_.Lock();
  if (status.ok()) status = env_->RenameFile(from, aside);
  const bool is_aside = status.ok();
  // NotFound: it was never created, or another process has removed it.
  const bool is_gone = is_aside || status.IsNotFound();
  if (is_gone) status = directory_->Sync();
  root_mutex_.Unlock();
  if (file_lock != nullptr) {
    // The lock file is removed with the others. The next open creates a new
    // one.
    env_->UnlockFile(std::move(file_lock)).IgnoreError();
  }
  // Otherwise a power loss may bring it back, and then it must be complete.
  if (is_gone && status.ok()) RemoveDropped(aside);
  mutex_.Lock();
  if (is_gone && status.ok()) {
    EraseLocked(entry);
    return status;
  }
  if (is_aside) entry->aside = aside;
  if (is_gone) entry->is_leaving = true;
  entry->state = CatalogEntry::State::kClosed;
  changed_.SignalAll();
  return status;
}

Status CatalogImpl::RemoveAllDropped(
    const std::vector<std::string>& directories) {
  if (directories.empty()) return Status::OK();
  // As in RemoveLocked: the sync after the last rename may have failed.
  std::vector<std::string> asides;
  Status status;
  for (const std::string& directory : directories) {
    asides.push_back(root_ + "/" + DroppedDirectory(next_dropped_++));
    status = env_->RenameFile(directory, asides.back());
    if (!status.ok()) return status;
  }
  status = directory_->Sync();
  if (!status.ok()) return status;
  for (const std::string& aside : asides) RemoveDropped(aside);
  return status;
}

void CatalogImpl::RemoveDropped(const std::string& directory) {
  // A link itself is removed. Its target belongs to others.
  if (!env_->CreateDirIfMissing(directory).ok()) {
    if (IsFile(env_, directory)) return;
    env_->RemoveFile(directory).IgnoreError();  // See below.
    return;
  }
  RemoveLost(env_, directory + "/lost");
  Options options;
  options.env = env_;
  DestroyDB(directory, options).IgnoreError();  // See above.
}

}  // namespace varve
