// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/lifetime.h"

#include <array>
#include <mutex>
#include <utility>
#include <vector>

namespace varve::rocksdb_c {

constinit std::atomic<bool> has_orphans{false};

namespace {

// A closed handle takes about 100 bytes.
constexpr size_t kClosedHandles = 128;

// Never destroyed, since programs may close databases when they end.
struct Closed {
  std::mutex mutex;
  std::array<std::unique_ptr<rocksdb_t>, kClosedHandles> handles;
  size_t next = 0;
};

struct Orphans {
  std::mutex mutex;
  std::vector<std::shared_ptr<DB>> databases;
};

Closed& ClosedHandles() {
  static Closed& closed = *new Closed;
  return closed;
}

Orphans& AllOrphans() {
  static Orphans& orphans = *new Orphans;
  return orphans;
}

void KeepClosed(rocksdb_t* db) {
  std::unique_ptr<rocksdb_t> oldest(db);
  Closed& closed = ClosedHandles();
  const std::scoped_lock lock(closed.mutex);
  closed.handles[closed.next].swap(oldest);
  closed.next = (closed.next + 1) % kClosedHandles;
}

void AddOrphan(std::shared_ptr<DB> db) {
  // The program may end, or destroy its comparator, before it destroys the
  // objects. So all data is written now, and no background job remains. There
  // is no way to return an error.
  db->Flush(FlushOptions()).IgnoreError();
  db->FlushWAL(true).IgnoreError();
  db->CancelAllBackgroundWork(true);
  Orphans& orphans = AllOrphans();
  const std::scoped_lock lock(orphans.mutex);
  orphans.databases.push_back(std::move(db));
  // relaxed: see LetGo.
  has_orphans.store(true, std::memory_order_relaxed);
}

}  // namespace

void LetGoWithOrphans(void (*go)(void*), void* object) {
  // Destroyed after the mutex is released, because that can call the program.
  std::vector<std::shared_ptr<DB>> ended;
  Orphans& orphans = AllOrphans();
  const std::scoped_lock lock(orphans.mutex);
  go(object);
  std::erase_if(orphans.databases, [&ended](std::shared_ptr<DB>& db) {
    if (db->Close().IsBusy()) return false;
    ended.push_back(std::move(db));
    return true;
  });
  // relaxed: see LetGo.
  has_orphans.store(!orphans.databases.empty(), std::memory_order_relaxed);
}

void CloseHandle(rocksdb_t* db) {
  if (db->db == nullptr) return;
  db->db = nullptr;
  std::shared_ptr<DB> owned = std::move(db->owned);
  db->prefix_extractor.reset();
  KeepClosed(db);
  if (owned->Close().IsBusy()) AddOrphan(std::move(owned));
}

}  // namespace varve::rocksdb_c
