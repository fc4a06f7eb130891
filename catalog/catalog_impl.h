// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The catalog: a map from folded names to entries, guarded by a mutex, and a
// cache of requested names in front of it (catalog/name_cache.h), which is read
// without a lock. References are counted in catalog/distributed_ref_counts.h;
// its `target` is an entry's `open`.
//
// Lock order. mutex_ is acquired with no other mutex held. It is released while
// a database is opened, closed or removed. The entry's state shows that a
// thread is working on it; other threads wait for `changed_`. root_mutex_ is
// acquired without mutex_.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/distributed_ref_counts.h"
#include "catalog/name_cache.h"
#include "db/engine/db_impl.h"
#include "db/folding/key_case.h"
#include "env/descriptor_supply.h"
#include "env/stopwatch.h"
#include "table/reader/file_pool.h"
#include "util/base/mutex.h"
#include "util/threads/fork_watch.h"
#include "util/threads/thread_pool.h"
#include "varve/catalog.h"

namespace varve {

// A database of a catalog, open or not.
struct CatalogEntry {
  enum class State : uint8_t {
    kClosed,
    kOpening,  // By one thread.
    kOpen,
    kEnding,  // By one thread. Next: kClosed, removed, or kOpen if refused.
  };

  // Immutable.
  DistributedRefCounts* references = nullptr;
  uint32_t index = 0;
  std::string name;

  // Stored with the catalog's mutex held. Null except in kOpen.
  std::atomic<DB*> open{nullptr};

  // Guarded by the catalog's mutex. In kOpening and kEnding, `db` belongs to
  // the thread that works on the entry.
  State state = State::kClosed;
  std::unique_ptr<DB> db;
  DBImpl* engine = nullptr;  // In `db`, which may fold keys first.
  // The entry must not be found: a Drop has removed its name, or its Create has
  // failed, and this is not durable yet. The state is then kClosed or kEnding.
  bool is_leaving = false;
  // The path of its directory after it was renamed for removal; otherwise
  // empty.
  std::string aside;
  // The sum `taken` when it was last checked for idleness, and the time since
  // which the sum is unchanged.
  uint64_t taken = 0;
  uint64_t idle_since_us = 0;
  uint64_t opened_us = 0;
};

// When descriptors run short (env/descriptor_supply.h), databases without
// references are closed, the least recently used first. A thread that opens a
// database does this if databases hold more descriptors than tables do, or at
// EMFILE. If any other open fails with EMFILE, the catalog's own thread does
// it, because the opening thread may hold a lock that closing needs. A closed
// database is opened again when it is requested.
class CatalogImpl final : public Catalog,
                          private DescriptorOwner,
                          private ForkWatch {
 public:
  CatalogImpl(const CatalogOptions& options, const std::string& root);
  ~CatalogImpl() override;

  // Opens the catalog. REQUIRES: called once, before any other function.
  Status Open(bool create_if_missing);

  Status Find(const Slice& name, DatabaseRef* ref) override;
  Status Create(const Slice& name) override;
  Status Drop(const Slice& name) override;
  Status CloseIdle(uint64_t idle_us, size_t* closed) override;
  void List(std::vector<std::string>* names) override;
  Counts GetCounts() override;
  Status Close() override;

 private:
  // Databases handle forks as DBImpl::InForkedChild says. This must not wait
  // for threads of the parent.
  void InForkedChild() override {
    MakeFree(&root_mutex_);
    MakeFree(&mutex_);
    MakeFree(&changed_);
  }

  using Entries =
      std::map<std::string, std::unique_ptr<CatalogEntry>, std::less<>>;

  // Not marked as cold: that would slow down the variant that it is compared
  // with.
  [[gnu::noinline]] Status FindSlowly(const Slice& name, DatabaseRef* ref);
  // Opens the database of a closed entry. The entry is then open, or closed if
  // that fails. May release the mutex and reacquire it.
  Status OpenLocked(CatalogEntry* entry, bool is_new) VARVE_REQUIRES(mutex_);
  // Waits while another thread works on the entry. Returns the entry, or null
  // if there is none. May release the mutex and reacquire it.
  CatalogEntry* AwaitLocked(const Slice& folded) VARVE_REQUIRES(mutex_);
  CatalogEntry* FindLocked(const Slice& folded) VARVE_REQUIRES(mutex_);
  CatalogEntry* AddLocked(const std::string& folded) VARVE_REQUIRES(mutex_);
  void EraseLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // Move an entry from kOpen to kEnding, and back.
  void RetractLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  void PutBackLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // Waits up to `timeout_us` until the entry has no references. Returns whether
  // it has none.
  bool AwaitReferences(const CatalogEntry& entry, uint64_t timeout_us);
  // Closes the database of an entry in kEnding without references. Returns Busy
  // if it has iterators or snapshots. The mutex is not held.
  static Status CloseDatabase(CatalogEntry* entry);
  // Creates a database's directory and makes its name durable.
  Status MakeDirectory(const std::string& path);
  // Returns the time of a monotonic clock.
  uint64_t NowUs() const { return MonotonicMicros(env_); }
  // Removes an entry whose database is not open, and its directory. On failure
  // the entry is closed, and leaving if its name is removed. May be repeated
  // until it returns OK. May release the mutex and reacquire it.
  Status RemoveLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // Removes directories of dropped databases that other processes and failed
  // calls have left.
  Status RemoveAllDropped(const std::vector<std::string>& directories)
      VARVE_REQUIRES(mutex_);
  void RemoveDropped(const std::string& directory);
  bool IsIdleLocked(CatalogEntry* entry, uint64_t idle_us)
      VARVE_REQUIRES(mutex_);
  // Closes the retracted entries that have no references. With
  // `flush_unlogged`, a database stays open if its unlogged updates cannot be
  // flushed.
  Status CloseRetracted(const std::vector<CatalogEntry*>& idle,
                        bool flush_unlogged, size_t* closed)
      VARVE_EXCLUDES(mutex_);
  // Closes some databases and returns how many. With `only_if_many`, does so
  // only if databases hold more descriptors than tables do.
  size_t CloseLeastUsed(bool only_if_many) VARVE_EXCLUDES(mutex_);
  std::vector<CatalogEntry*> RetractLeastUsed(bool only_if_many)
      VARVE_EXCLUDES(mutex_);
  // Called before a database is opened.
  void MakeSpaceForDatabase() VARVE_EXCLUDES(mutex_);
  Status OpenDatabase(const std::string& path, CatalogEntry* entry)
      VARVE_EXCLUDES(mutex_);
  size_t Held() const override { return 0; }  // So it is asked last.
  CloseResult GiveBack(size_t count, size_t keep) override;
  // After this, GiveBack is not called, and the work that it began has ended.
  void StopGiving() VARVE_EXCLUDES(mutex_);
  std::string PathOf(const CatalogEntry& entry) const;

  // Immutable after Open.
  const bool folds_names_;  // See ExperimentFlags.
  const KeyFolding folding_;
  Options options_;
  const std::string root_;
  // Finds the files even if the root is moved. Null if the Env does not support
  // it.
  const std::unique_ptr<DirectoryEnv> directory_env_;
  Env* const env_;  // directory_env_, or the Env of the options.
  const uint64_t drop_timeout_us_;
  std::unique_ptr<FilePool> file_pool_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Directory> directory_;

  DistributedRefCounts references_;
  NameCache name_cache_;  // Partly guarded by mutex_; see there.

  // Held from a change of the root's names until it is synced. A failed sync
  // can lose the changes of other threads, but only one thread gets the error.
  Mutex root_mutex_;

  Mutex mutex_;
  CondVar changed_;  // An entry's state has changed.
  Entries entries_ VARVE_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_indexes_ VARVE_GUARDED_BY(mutex_);
  uint32_t next_index_ VARVE_GUARDED_BY(mutex_) = 0;
  uint64_t next_dropped_ VARVE_GUARDED_BY(mutex_) = 1;
  bool closed_ VARVE_GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> shortages_seen_{0};
  std::atomic<bool> closing_{false};  // closing_pool_ is closing databases.
  std::atomic<uint64_t> retry_at_us_{0};
  ThreadPool closing_pool_{{.name = "varve:idle"}};
  Registration fork_watch_{this};  // Last: see ForkWatch.
};

}  // namespace varve
