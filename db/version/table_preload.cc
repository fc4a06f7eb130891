// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/version/table_preload.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "util/base/mutex.h"
#include "util/threads/background_thread.h"

namespace varve {

namespace {

constexpr size_t kMaxThreads = 8;
// Opening fewer tables takes less time than starting another thread.
constexpr size_t kFilesPerThread = 64;
// The number of files that a thread claims at once.
constexpr size_t kFilesPerTurn = 16;

class Preload {
 public:
  Preload(TableCache* table_cache, const std::vector<FileMetaData*>& files)
      : table_cache_(table_cache), files_(files), first_failed_(files.size()) {}

  Status Run() {
    const size_t wanted =
        std::min(kMaxThreads, files_.size() / kFilesPerThread);
    std::vector<pthread_t> helpers;
    while (helpers.size() + 1 < wanted) {
      pthread_t thread;
      // Without a helper it only takes longer.
      if (StartBackgroundThread(&thread, &ThreadMain, this) != 0) break;
      helpers.push_back(thread);
    }
    Work();
    for (const pthread_t thread : helpers) pthread_join(thread, nullptr);
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  static void* ThreadMain(void* self) {
    static_cast<Preload*>(self)->Work();
    return nullptr;
  }

  void Work() {
    for (;;) {
      // relaxed: each number is claimed once; nothing else depends on it.
      const size_t begin =
          next_.fetch_add(kFilesPerTurn, std::memory_order_relaxed);
      const size_t end = std::min(begin + kFilesPerTurn, files_.size());
      if (begin >= end) return;
      for (size_t i = begin; i < end; ++i) {
        FileMetaData* const file = files_[i];
        Status status =
            table_cache_->Check(file->table_file(), &file->table, &file->dead);
        if (status.ok()) continue;
        MutexLock lock(&mu_);
        if (i >= first_failed_) return;
        first_failed_ = i;
        status_ = std::move(status);
        return;
      }
    }
  }

  TableCache* const table_cache_;
  const std::vector<FileMetaData*>& files_;
  std::atomic<size_t> next_{0};
  Mutex mu_;
  size_t first_failed_ VARVE_GUARDED_BY(mu_);
  Status status_ VARVE_GUARDED_BY(mu_);
};

}  // namespace

Status PreloadTables(TableCache* table_cache,
                     const std::vector<FileMetaData*>& files) {
  return Preload(table_cache, files).Run();
}

}  // namespace varve
