// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/db/lifetime.h"

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "compat/rocksdb/callbacks/event_listener.h"
#include "compat/rocksdb/db/families.h"
#include "compat/shared/observer.h"

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

// All open handles.
struct OpenHandles {
  std::mutex mutex;
  std::vector<rocksdb_t*> handles;
};

struct Orphans {
  std::mutex mutex;
  std::vector<std::shared_ptr<DB>> databases;
};

Closed& ClosedHandles() {
  static Closed& closed = *new Closed;
  return closed;
}

OpenHandles& AllOpen() {
  static OpenHandles& open = *new OpenHandles;
  return open;
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
  Orphans& orphans = AllOrphans();
  const std::scoped_lock lock(orphans.mutex);
  orphans.databases.push_back(std::move(db));
  // relaxed: see LetGo.
  has_orphans.store(true, std::memory_order_relaxed);
}

// The program may end, or destroy its comparator, before it destroys the
// objects of an orphan. So this writes all data, and no background job remains.
// There is no way to return an error.
void Settle(rocksdb_t* db) {
  FlushAll(FlushOptions(), db).IgnoreError();
  db->db->FlushWAL(true).IgnoreError();
  db->db->CancelAllBackgroundWork(true);
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

void AddHandle(rocksdb_t* db) {
  OpenHandles& open = AllOpen();
  const std::scoped_lock lock(open.mutex);
  open.handles.push_back(db);
}

rocksdb_t* FindOpenDatabase(const std::string& path) {
  OpenHandles& open = AllOpen();
  const std::scoped_lock lock(open.mutex);
  rocksdb_t* found = nullptr;
  for (rocksdb_t* db : open.handles) {
    if (db->path != path) continue;
    if (!db->is_read_only) return db;
    found = db;
  }
  return found;
}

void CloseHandle(rocksdb_t* db) {
  if (db->db == nullptr || db->main != db) return;
  {
    OpenHandles& open = AllOpen();
    const std::scoped_lock lock(open.mutex);
    std::erase(open.handles, db);
  }
  compat::Observer::Remove(db->db);
  // Listeners can be called until then, with this handle.
  const bool is_busy = db->db->Close().IsBusy();
  if (is_busy) Settle(db);
  db->db = nullptr;
  if (db->base != nullptr) {
    db->base->db = nullptr;
    db->base->owned.reset();
  }
  db->transactions.reset();
  db->log.reset();
  db->default_family.reset();
  db->families.clear();
  std::shared_ptr<DB> owned = std::move(db->owned);
  KeepClosed(db);
  if (is_busy) AddOrphan(std::move(owned));
}

}  // namespace varve::rocksdb_c
