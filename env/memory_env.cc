// Varve: a key-value storage engine. MIT licence, see LICENSE.

// A file system in memory: a tree of nodes, as in POSIX. A name in a directory
// is one reference to a node, and an open file is another. The last reference
// frees it. Errors match the system calls' errors.
//
// Locks: the tree has one mutex. Each node's bytes have another (a leaf:
// nothing is locked under it).

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "env/log_line.h"
#include "util/base/mutex.h"
#include "util/base/thread_annotations.h"
#include "varve/env.h"

namespace varve {

namespace {

// The bytes of a file. Thread-safe.
class Contents {
 public:
  // Returns the number of bytes read: fewer than `count` at the end.
  size_t Read(uint64_t offset, size_t count, char* scratch) const {
    MutexLock lock(&mu_);
    if (offset >= bytes_.size()) return 0;
    const size_t start = static_cast<size_t>(offset);
    const size_t n = std::min(count, bytes_.size() - start);
    memcpy(scratch, bytes_.data() + start, n);
    return n;
  }
  // Fills a gap before `offset` with zeros.
  void Write(uint64_t offset, const Slice& data) {
    if (data.empty()) return;
    MutexLock lock(&mu_);
    const size_t start = static_cast<size_t>(offset);
    if (start == bytes_.size()) {
      bytes_.append(data.data(), data.size());
      return;
    }
    bytes_.resize(std::max(bytes_.size(), start + data.size()));
    memcpy(bytes_.data() + start, data.data(), data.size());
  }
  void Resize(uint64_t size) {
    MutexLock lock(&mu_);
    bytes_.resize(static_cast<size_t>(size));
  }
  uint64_t Size() const {
    MutexLock lock(&mu_);
    return bytes_.size();
  }

 private:
  mutable Mutex mu_;
  std::string bytes_ VARVE_GUARDED_BY(mu_);
};

// A file, or a directory if `contents` is null. The entries are guarded by
// the mutex of the tree.
struct Node {
  explicit Node(bool is_file)
      : contents(is_file ? std::make_unique<Contents>() : nullptr) {}
  bool IsDirectory() const { return contents == nullptr; }

  const std::unique_ptr<Contents> contents;
  std::atomic<uint64_t> created_s{0};
  std::map<std::string, std::shared_ptr<Node>, std::less<>> entries;
};

class MemorySequentialFile final : public SequentialFile {
 public:
  explicit MemorySequentialFile(std::shared_ptr<Node> node)
      : node_(std::move(node)) {}

  Status Read(size_t count, Slice* result, char* scratch) override {
    const size_t n = node_->contents->Read(offset_, count, scratch);
    *result = Slice(scratch, n);
    offset_ += n;
    return Status::OK();
  }
  Status Skip(uint64_t count) override {
    const uint64_t size = node_->contents->Size();
    if (size > offset_) offset_ += std::min(count, size - offset_);
    return Status::OK();
  }

 private:
  const std::shared_ptr<Node> node_;
  uint64_t offset_ = 0;
};

class MemoryRandomAccessFile final : public RandomAccessFile {
 public:
  explicit MemoryRandomAccessFile(std::shared_ptr<Node> node)
      : node_(std::move(node)) {}

  Status Read(uint64_t offset, size_t count, Slice* result,
              char* scratch) const override {
    *result = Slice(scratch, node_->contents->Read(offset, count, scratch));
    return Status::OK();
  }

 private:
  const std::shared_ptr<Node> node_;
};

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(std::string path, std::shared_ptr<Node> node)
      : path_(std::move(path)), node_(std::move(node)) {}

  Status Append(const Slice& data) override {
    Status status = CheckOpen();
    if (!status.ok()) return status;
    node_->contents->Write(size_, data);
    size_ += data.size();
    return Status::OK();
  }
  Status Flush() override { return CheckOpen(); }
  Status Sync() override { return CheckOpen(); }
  Status Close() override {
    Status status = CheckOpen();
    node_.reset();
    return status;
  }
  uint64_t Size() const override { return size_; }

 private:
  Status CheckOpen() const {
    if (node_ == nullptr) return Status::IOError(path_, "file is closed");
    return Status::OK();
  }

  const std::string path_;
  std::shared_ptr<Node> node_;  // Null once closed.
  uint64_t size_ = 0;
};

class MemoryDirectory final : public Directory {
 public:
  Status Sync() override { return Status::OK(); }
};

struct MemoryFileLock final : public FileLock {
  explicit MemoryFileLock(std::shared_ptr<Node> locked)
      : node(std::move(locked)) {}
  const std::shared_ptr<Node> node;
};

class MemoryLogger final : public Logger {
 public:
  MemoryLogger(Env* clock, std::shared_ptr<Node> node)
      : clock_(clock), node_(std::move(node)) {}

  void Logv(LogLevel level, const char* format, va_list arguments) override {
    const std::string line =
        FormatLogLine(level, clock_->NowMicros(), format, arguments);
    MutexLock lock(&mu_);
    node_->contents->Write(size_, line);
    size_ += line.size();
  }

 private:
  Env* const clock_;
  const std::shared_ptr<Node> node_;
  Mutex mu_;
  uint64_t size_ VARVE_GUARDED_BY(mu_) = 0;
};

class MemoryEnv final : public EnvWrapper {
 public:
  explicit MemoryEnv(Env* base)
      : EnvWrapper(base),
        root_(std::make_shared<Node>(/*is_file=*/false)),
        working_directory_(std::make_shared<Node>(/*is_file=*/false)) {}

  Status NewSequentialFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<SequentialFile>* file) override;
  std::string IoPath() override { return "memory"; }
  // It has its own working directory, which never changes.
  std::string AbsolutePath(const std::string& path) override { return path; }
  Status NewRandomAccessFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<RandomAccessFile>* file) override;
  Status NewWritableFile(const std::string& path, const FileOptions&,
                         std::unique_ptr<WritableFile>* file) override;
  Status NewDirectory(const std::string& path,
                      std::unique_ptr<Directory>* directory) override;
  Status FileExists(const std::string& path) override;
  Status GetChildren(const std::string& path,
                     std::vector<std::string>* names) override;
  Status RemoveFile(const std::string& path) override;
  Status CreateDirIfMissing(const std::string& path) override;
  Status RemoveDir(const std::string& path) override;
  Status GetFileSize(const std::string& path, uint64_t* size) override;
  Status GetFileId(const std::string& path, FileId* id) override;
  Status GetFileModificationTime(const std::string& path,
                                 uint64_t* time_s) override;
  Status RenameFile(const std::string& source,
                    const std::string& target) override;
  Status LinkFile(const std::string& source,
                  const std::string& target) override;
  Status SyncFile(const std::string& path) override { return FileExists(path); }
  Status Truncate(const std::string& path, uint64_t size) override;
  Status LockFile(const std::string& path,
                  std::unique_ptr<FileLock>* lock) override;
  Status UnlockFile(std::unique_ptr<FileLock> lock) override;
  Status NewLogger(const std::string& path,
                   std::shared_ptr<Logger>* logger) override;

 private:
  // The result of a path lookup: a name in a directory, and its node.
  struct Place {
    std::shared_ptr<Node> directory;  // Null for a root.
    std::string name;                 // Empty for a root.
    std::shared_ptr<Node> node;       // Null if nothing has the name.
  };

  // Walks to the place. NotFound if a directory on the way is missing.
  // Absolute and relative paths start at different roots.
  Status Resolve(const std::string& path, Place* place) VARVE_REQUIRES(mu_);
  // Resolves, and requires that a file, or any node, exists there.
  Status Find(const std::string& path, Place* place) VARVE_REQUIRES(mu_);
  Status FindFile(const std::string& path, std::shared_ptr<Node>* node)
      VARVE_REQUIRES(mu_);
  // Finds the file `path`, or creates it.
  Status FindOrCreateFile(const std::string& path, std::shared_ptr<Node>* node)
      VARVE_REQUIRES(mu_);
  // Gives the name to a new file, and removes it from the file that had it.
  Status CreateFile(const std::string& path, std::shared_ptr<Node>* node)
      VARVE_REQUIRES(mu_);

  // Immutable after construction; the trees below are guarded by mu_.
  const std::shared_ptr<Node> root_;
  const std::shared_ptr<Node> working_directory_;
  // Guarded by mu_.
  Mutex mu_;
  std::set<const Node*> locked_ VARVE_GUARDED_BY(mu_);
};

Status MemoryEnv::Resolve(const std::string& path, Place* place) {
  std::vector<std::shared_ptr<Node>> ancestors;
  Place here;
  here.node = path.starts_with('/') ? root_ : working_directory_;
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view component = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (component.empty() || component == ".") continue;
    if (here.node == nullptr) return Status::FromErrno(path, ENOENT);
    if (!here.node->IsDirectory()) return Status::FromErrno(path, ENOTDIR);
    if (component == "..") {
      here = Place();
      here.node = ancestors.empty() ? root_ : ancestors.back();
      if (!ancestors.empty()) ancestors.pop_back();
      continue;
    }
    ancestors.push_back(here.node);
    const auto found = here.node->entries.find(component);
    Place next;
    next.name = component;
    if (found != here.node->entries.end()) next.node = found->second;
    next.directory = std::move(here.node);
    here = std::move(next);
  }
  if (path.empty()) return Status::FromErrno("empty path", ENOENT);
  *place = std::move(here);
  return Status::OK();
}

Status MemoryEnv::Find(const std::string& path, Place* place) {
  Place found;
  Status status = Resolve(path, &found);
  if (!status.ok()) return status;
  if (found.node == nullptr) return Status::FromErrno(path, ENOENT);
  *place = std::move(found);
  return Status::OK();
}

Status MemoryEnv::FindFile(const std::string& path,
                           std::shared_ptr<Node>* node) {
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (place.node->IsDirectory()) return Status::FromErrno(path, EISDIR);
  *node = std::move(place.node);
  return Status::OK();
}

Status MemoryEnv::FindOrCreateFile(const std::string& path,
                                   std::shared_ptr<Node>* node) {
  Place place;
  Status status = Resolve(path, &place);
  if (!status.ok()) return status;
  if (place.node == nullptr) {
    if (path.ends_with('/')) return Status::FromErrno(path, EISDIR);
    place.node = std::make_shared<Node>(/*is_file=*/true);
    place.directory->entries[place.name] = place.node;
  }
  if (place.node->IsDirectory()) return Status::FromErrno(path, EISDIR);
  *node = std::move(place.node);
  return Status::OK();
}

Status MemoryEnv::CreateFile(const std::string& path,
                             std::shared_ptr<Node>* node) {
  Place place;
  Status status = Resolve(path, &place);
  if (!status.ok()) return status;
  if (path.ends_with('/') ||
      (place.node != nullptr && place.node->IsDirectory())) {
    return Status::FromErrno(path, EISDIR);
  }
  *node = std::make_shared<Node>(/*is_file=*/true);
  (*node)->created_s = NowMicros() / 1000000;
  place.directory->entries[place.name] = *node;
  return Status::OK();
}

Status MemoryEnv::NewSequentialFile(const std::string& path,
                                    const FileOptions& /*options*/,
                                    std::unique_ptr<SequentialFile>* file) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = FindFile(path, &node);
  if (status.ok()) {
    *file = std::make_unique<MemorySequentialFile>(std::move(node));
  }
  return status;
}

Status MemoryEnv::NewRandomAccessFile(const std::string& path,
                                      const FileOptions& /*options*/,
                                      std::unique_ptr<RandomAccessFile>* file) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = FindFile(path, &node);
  if (status.ok()) {
    *file = std::make_unique<MemoryRandomAccessFile>(std::move(node));
  }
  return status;
}

Status MemoryEnv::NewWritableFile(const std::string& path,
                                  const FileOptions& /*options*/,
                                  std::unique_ptr<WritableFile>* file) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = CreateFile(path, &node);
  if (!status.ok()) return status;
  *file = std::make_unique<MemoryWritableFile>(path, std::move(node));
  return Status::OK();
}

Status MemoryEnv::NewDirectory(const std::string& path,
                               std::unique_ptr<Directory>* directory) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (!place.node->IsDirectory()) return Status::FromErrno(path, ENOTDIR);
  *directory = std::make_unique<MemoryDirectory>();
  return Status::OK();
}

Status MemoryEnv::FileExists(const std::string& path) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  // A file in place of a directory of the path means that nothing is there.
  if (status.IsIOError()) return Status::FromErrno(path, ENOENT);
  return status;
}

Status MemoryEnv::GetChildren(const std::string& path,
                              std::vector<std::string>* names) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (!place.node->IsDirectory()) return Status::FromErrno(path, ENOTDIR);
  names->clear();
  for (const auto& [name, node] : place.node->entries) names->push_back(name);
  return Status::OK();
}

Status MemoryEnv::RemoveFile(const std::string& path) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (place.node->IsDirectory()) return Status::FromErrno(path, EISDIR);
  place.directory->entries.erase(place.name);
  return Status::OK();
}

Status MemoryEnv::CreateDirIfMissing(const std::string& path) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Resolve(path, &place);
  if (!status.ok()) return status;
  if (place.node == nullptr) {
    place.directory->entries[place.name] =
        std::make_shared<Node>(/*is_file=*/false);
    return Status::OK();
  }
  if (!place.node->IsDirectory()) return Status::FromErrno(path, EEXIST);
  return Status::OK();
}

Status MemoryEnv::RemoveDir(const std::string& path) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (!place.node->IsDirectory()) return Status::FromErrno(path, ENOTDIR);
  if (place.directory == nullptr) return Status::FromErrno(path, EBUSY);
  if (!place.node->entries.empty()) {
    return Status::FromErrno(path, ENOTEMPTY);
  }
  place.directory->entries.erase(place.name);
  return Status::OK();
}

Status MemoryEnv::GetFileSize(const std::string& path, uint64_t* size) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  if (place.node->IsDirectory()) {
    return Status::NotSupported(path, "is no regular file");
  }
  *size = place.node->contents->Size();
  return Status::OK();
}

// A node outlives its name while it is open, so that no other file has its
// address.
Status MemoryEnv::GetFileId(const std::string& path, FileId* id) {
  MutexLock lock(&mu_);
  Place place;
  Status status = Find(path, &place);
  if (!status.ok()) return status;
  *id = FileId();
  id->number = reinterpret_cast<uintptr_t>(place.node.get());
  return status;
}

bool IsInside(const Node* node, const Node& tree) {
  if (node == &tree) return true;
  for (const auto& [name, child] : tree.entries) {
    if (child->IsDirectory() && IsInside(node, *child)) return true;
  }
  return false;
}

Status MemoryEnv::RenameFile(const std::string& source,
                             const std::string& target) {
  MutexLock lock(&mu_);
  Place from;
  Place to;
  Status status = Find(source, &from);
  if (status.ok()) status = Resolve(target, &to);
  if (!status.ok()) return status;
  if (from.directory == nullptr || to.directory == nullptr) {
    return Status::FromErrno(source, EBUSY);
  }
  // Two names of one file: POSIX requires that both stay.
  if (from.node == to.node) return Status::OK();
  if (from.node->IsDirectory()) {
    // A directory cannot become a part of itself.
    if (IsInside(to.directory.get(), *from.node)) {
      return Status::FromErrno(source, EINVAL);
    }
    if (to.node != nullptr && !to.node->IsDirectory()) {
      return Status::FromErrno(target, ENOTDIR);
    }
    if (to.node != nullptr && !to.node->entries.empty()) {
      return Status::FromErrno(target, ENOTEMPTY);
    }
  } else if (to.node != nullptr && to.node->IsDirectory()) {
    return Status::FromErrno(target, EISDIR);
  }
  from.directory->entries.erase(from.name);
  to.directory->entries[to.name] = std::move(from.node);
  return Status::OK();
}

Status MemoryEnv::LinkFile(const std::string& source,
                           const std::string& target) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Place place;
  Status status = FindFile(source, &node);
  if (status.ok()) status = Resolve(target, &place);
  if (!status.ok()) return status;
  if (place.node != nullptr) return Status::FromErrno(target, EEXIST);
  place.directory->entries[place.name] = std::move(node);
  return Status::OK();
}

// A file that was written for long counts as older than it is.
Status MemoryEnv::GetFileModificationTime(const std::string& path,
                                          uint64_t* time_s) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = FindFile(path, &node);
  if (status.ok()) *time_s = node->created_s;
  return status;
}

Status MemoryEnv::Truncate(const std::string& path, uint64_t size) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = FindFile(path, &node);
  if (status.ok()) node->contents->Resize(size);
  return status;
}

Status MemoryEnv::LockFile(const std::string& path,
                           std::unique_ptr<FileLock>* file_lock) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = FindOrCreateFile(path, &node);
  if (!status.ok()) return status;
  if (!locked_.insert(node.get()).second) {
    return Status::Busy("lock " + path, "held by this process");
  }
  *file_lock = std::make_unique<MemoryFileLock>(std::move(node));
  return Status::OK();
}

Status MemoryEnv::UnlockFile(std::unique_ptr<FileLock> file_lock) {
  MutexLock lock(&mu_);
  const auto* held = static_cast<const MemoryFileLock*>(file_lock.get());
  locked_.erase(held->node.get());
  return Status::OK();
}

Status MemoryEnv::NewLogger(const std::string& path,
                            std::shared_ptr<Logger>* logger) {
  MutexLock lock(&mu_);
  std::shared_ptr<Node> node;
  Status status = CreateFile(path, &node);
  if (!status.ok()) return status;
  *logger = std::make_shared<MemoryLogger>(target(), std::move(node));
  return Status::OK();
}

}  // namespace

std::unique_ptr<Env> NewMemoryEnv(Env* base) {
  return std::make_unique<MemoryEnv>(base);
}

}  // namespace varve
