// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/database.h"

#include <malloc.h>

#include <atomic>
#include <utility>

#include "compat/leveldb/convert.h"
#include "compat/leveldb/marker.h"

namespace varve::compat {
namespace {

// The databases of the process, and the most since there were none.
std::atomic<size_t> existing{0};
std::atomic<size_t> most_existing{0};

// Giving memory back costs time for each free part of the program's heap, so
// it is done if there were this many databases.
constexpr size_t kManyDatabases = 8;

// Returns the error of a directory in which this process cannot make a lock.
// LevelDB makes the directory and its lock before it looks for a database.
Status CheckLock(Env* env, const std::string& path) {
  env->CreateDirIfMissing(path).IgnoreError();  // LockFile fails then.
  std::unique_ptr<FileLock> lock;
  Status status = env->LockFile(path + "/LOCK", &lock);
  if (status.ok()) status = env->UnlockFile(std::move(lock));
  return status;
}

// Returns LevelDB's errors, whose texts programs compare.
Status CheckExistence(Env* env, const leveldb::Options& options,
                      const std::string& path) {
  if (options.create_if_missing && !options.error_if_exists) {
    return Status::OK();
  }
  const Status found = env->FileExists(path + "/CURRENT");
  if (found.IsNotFound() && !options.create_if_missing) {
    if (Status lock = CheckLock(env, path); !lock.ok()) return lock;
    return Status::InvalidArgument(
        path, "does not exist (create_if_missing is false)");
  }
  if (found.ok() && options.error_if_exists) {
    return Status::InvalidArgument(path, "exists (error_if_exists is true)");
  }
  return Status::OK();
}

void NoteConversion(Logger* logger) {
  Log(LogLevel::kWarn, logger,
      "LevelDB wrote this database, and it is converted now: LevelDB can no "
      "longer open it; see %s",
      kMarkerName);
}

// The program's own logger may go anywhere, or nowhere. Keeps the LOG that
// LevelDB wrote under the name that LevelDB would give it.
void NoteConversionInLog(Env* env, const std::string& path) {
  const std::string log_path = path + "/LOG";
  env->RenameFile(log_path, log_path + ".old").IgnoreError();
  std::shared_ptr<Logger> logger;
  if (env->NewLogger(log_path, &logger).ok()) NoteConversion(logger.get());
}

}  // namespace

Status Database::Open(const leveldb::Options& options, const std::string& path,
                      std::shared_ptr<Database>* database) {
  std::shared_ptr<Database> opened(new Database(path));
  Status status = opened->parts_.Set(options);
  if (!status.ok()) return status;
  Env* const env = opened->parts_.env.get();
  status = CheckExistence(env, options, path);
  if (!status.ok()) return status;
  const bool is_foreign =
      opened->parts_.HasOwnFiles() && IsLevelDbDirectory(env, path);
  status = DB::Open(opened->parts_.options, path, &opened->db_);
  if (!status.ok()) return status;
  if (is_foreign) {
    NoteConversion(opened->logger());
    if (options.info_log != nullptr) NoteConversionInLog(env, path);
  }
  if (opened->parts_.HasOwnFiles()) {
    if (Status marked = WriteMarker(env, path, is_foreign); !marked.ok()) {
      Log(LogLevel::kWarn, opened->logger(), "%s", marked.ToString().c_str());
    }
  }
  *database = std::move(opened);
  return status;
}

Database::Database(std::string path) : path_(std::move(path)) {
  // relaxed, all: only the numbers matter.
  const size_t count = existing.fetch_add(1, std::memory_order_relaxed) + 1;
  size_t most = most_existing.load(std::memory_order_relaxed);
  while (count > most && !most_existing.compare_exchange_weak(
                             most, count, std::memory_order_relaxed)) {
  }
}

Database::~Database() {
  db_.reset();
  // A memtable has many small parts. Without the call, an allocation that is
  // still in use keeps most of their pages in the process.
  // relaxed, both: only the numbers matter.
  if (existing.fetch_sub(1, std::memory_order_relaxed) == 1 &&
      most_existing.exchange(0, std::memory_order_relaxed) >= kManyDatabases) {
    malloc_trim(0);
  }
}

const leveldb::Snapshot* Database::NewSnapshot() {
  auto* snapshot = new DatabaseSnapshot;
  snapshot->owner_ = this;
  snapshot->target_ = db_->GetSnapshot();
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshot->previous_ = newest_snapshot_;
  if (newest_snapshot_ != nullptr) newest_snapshot_->next_ = snapshot;
  newest_snapshot_ = snapshot;
  return snapshot;
}

void Database::ReleaseSnapshot(const leveldb::Snapshot* snapshot) {
  const auto* const released = static_cast<const DatabaseSnapshot*>(snapshot);
  if (released->owner_ != this) {
    return released->owner_->ReleaseSnapshot(snapshot);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (released->previous_ != nullptr) {
      released->previous_->next_ = released->next_;
    }
    (released->next_ != nullptr ? released->next_->previous_
                                : newest_snapshot_) = released->previous_;
  }
  db_->ReleaseSnapshot(released->target_);
  delete released;
}

size_t Database::ReleaseAllSnapshots() {
  size_t count = 0;
  for (; newest_snapshot_ != nullptr; ++count) {
    ReleaseSnapshot(newest_snapshot_);
  }
  return count;
}

Status Database::FindSnapshot(const leveldb::Snapshot* snapshot,
                              const varve::Snapshot** target) const {
  const auto* const found = static_cast<const DatabaseSnapshot*>(snapshot);
  if (found->owner_ != this) {
    return Status::InvalidArgument(
        "ReadOptions::snapshot belongs to another database");
  }
  *target = found->target_;
  return Status::OK();
}

}  // namespace varve::compat
