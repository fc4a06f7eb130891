// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/wal/wal_archive.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "env/file_names.h"

namespace varve {

namespace {

// After a failure, the next attempt comes no sooner.
constexpr uint64_t kRetryS = 60;

// Compared with the dates of files.
uint64_t NowSeconds(Env* env) { return env->NowMicros() / 1000000; }

Status SyncDirectory(Env* env, const std::string& path) {
  std::unique_ptr<Directory> directory;
  Status status = env->NewDirectory(path, &directory);
  return status.ok() ? directory->Sync() : status;
}

}  // namespace

std::string ArchiveDirectory(const std::string& db_path) {
  return db_path + "/archive";
}

std::string ArchivedWalFileName(const std::string& db_path, uint64_t number) {
  return WalFileName(ArchiveDirectory(db_path), number);
}

Status ListLogs(Env* env, const std::string& directory,
                std::vector<uint64_t>* numbers) {
  numbers->clear();
  std::vector<std::string> names;
  Status status = env->GetChildren(directory, &names);
  if (!status.ok()) return status;
  for (const std::string& name : names) {
    uint64_t number = 0;
    FileKind kind;
    if (ParseFileName(name, &number, &kind) && kind == FileKind::kWal) {
      numbers->push_back(number);
    }
  }
  std::sort(numbers->begin(), numbers->end());
  return status;
}

Status ListArchive(Env* env, const std::string& db_path,
                   std::vector<uint64_t>* numbers) {
  Status status = ListLogs(env, ArchiveDirectory(db_path), numbers);
  return status.IsNotFound() ? Status::OK() : status;
}

WalArchive::WalArchive(Env* env, const std::string& db_path,
                       const DBOptions& options)
    : env_(env),
      db_path_(db_path),
      ttl_s_(options.WAL_ttl_seconds),
      limit_bytes_(std::min(options.WAL_size_limit_MB, UINT64_MAX >> 20)
                   << 20) {}

Status WalArchive::Add(uint64_t number) const {
  const std::string from = WalFileName(db_path_, number);
  const std::string to = ArchivedWalFileName(db_path_, number);
  Status status = env_->RenameFile(from, to);
  if (status.IsNotFound()) {
    status = env_->CreateDirIfMissing(ArchiveDirectory(db_path_));
    if (status.ok()) status = SyncDirectory(env_, db_path_);
    if (status.ok()) status = env_->RenameFile(from, to);
  }
  // Before the log's old name is durably gone.
  return status.ok() ? SyncDirectory(env_, ArchiveDirectory(db_path_)) : status;
}

uint64_t WalArchive::Purge(Logger* log) const {
  struct File {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t time_s = 0;  // 0: unknown.
  };
  std::vector<uint64_t> numbers;
  if (!ListArchive(env_, db_path_, &numbers).ok()) {
    return NowSeconds(env_) + kRetryS;
  }
  std::vector<File> files;
  uint64_t all_bytes = 0;
  for (const uint64_t number : numbers) {
    File file{number};
    const std::string path = ArchivedWalFileName(db_path_, number);
    if (!env_->GetFileSize(path, &file.bytes).ok()) continue;
    // Without a date, it is removed because of the size alone.
    if (!env_->GetFileModificationTime(path, &file.time_s).ok()) {
      file.time_s = 0;
    }
    all_bytes += file.bytes;
    files.push_back(file);
  }
  const uint64_t now_s = NowSeconds(env_);
  uint64_t next_due_s = kNever;
  for (const File& file : files) {
    const bool is_old = ttl_s_ != 0 && file.time_s != 0 &&
                        file.time_s < now_s && now_s - file.time_s > ttl_s_;
    const bool is_too_much = limit_bytes_ != 0 && all_bytes > limit_bytes_;
    if (is_old || is_too_much) {
      const std::string path = ArchivedWalFileName(db_path_, file.number);
      Log(LogLevel::kInfo, log, "removing %s: the archive has %llu bytes",
          path.c_str(), static_cast<unsigned long long>(all_bytes));
      const Status status = env_->RemoveFile(path);
      if (status.ok() || status.IsNotFound()) {
        all_bytes -= file.bytes;
      } else {
        next_due_s = std::min(next_due_s, now_s + kRetryS);
      }
      continue;
    }
    if (ttl_s_ != 0 && file.time_s != 0 && ttl_s_ < kNever - file.time_s) {
      next_due_s = std::min(next_due_s, file.time_s + ttl_s_ + 1);
    }
  }
  return next_due_s;
}

bool WalArchive::IsDueLocked() const {
  return keeps_logs() && !purge_runs_ && next_due_s_ != kNever &&
         next_due_s_ <= NowSeconds(env_);
}

bool WalArchive::BeginPurgeLocked(bool added) {
  if (!keeps_logs()) return false;
  if (purge_runs_) {
    runs_again_ = runs_again_ || added;
    return false;
  }
  if (!added && !IsDueLocked()) return false;
  purge_runs_ = true;
  return true;
}

void WalArchive::EndPurgeLocked(uint64_t next_due_s) {
  purge_runs_ = false;
  next_due_s_ = std::exchange(runs_again_, false) ? 0 : next_due_s;
}

}  // namespace varve
