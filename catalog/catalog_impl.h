// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The catalog: a map from folded names to entries, under a mutex, and before it
// a cache of the names that were requested (catalog/name_cache.h),
// which is read without one. References are counted by
// catalog/distributed_ref_counts.h, whose `target` is an entry's `open`.
//
// mutex_ is taken with no other mutex held, and not held while a database is
// opened, closed or removed: the entry's state says who is at it, and others
// wait for `changed_`. root_mutex_ is taken without it.

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
    kEnding,  // By one thread, which takes the next step: kClosed or gone; or
              // kOpen, if it may not.
  };

  // Immutable.
  DistributedRefCounts* references = nullptr;
  uint32_t index = 0;
  std::string name;

  // Stored with the catalog's mutex held; null but in kOpen.
  std::atomic<DB*> open{nullptr};

  // Guarded by the catalog's mutex; in kOpening and kEnding, `db` is the
  // thread's who is at it.
  State state = State::kClosed;
  std::unique_ptr<DB> db;
  DBImpl* engine = nullptr;  // Of `db`, which may fold keys before it.
  // Nobody is to find it: a Drop has taken its name away, or its Create has
  // failed, and that is not safe yet. It is in kClosed then, or kEnding.
  bool is_leaving = false;
  // Where its directory is then; empty while it is in its place, if anywhere.
  std::string aside;
  // The sum `taken` when CloseIdle looked, and since when it is that.
  uint64_t taken = 0;
  uint64_t idle_since_us = 0;
  uint64_t opened_us = 0;
};

// When descriptors run short (env/descriptor_supply.h), databases are closed
// that nobody has a reference to, those that were used least lately first: by
// the thread that opens another one, if databases hold more descriptors than
// tables do, or at an EMFILE; and by a thread of the catalog's own when any
// other open meets EMFILE, since that may be in a thread which holds a lock
// that closing needs. A closed database is opened again when it is asked for.
class CatalogImpl final : public Catalog,
                          private DescriptorOwner,
                          private ForkWatch {
 public:
  CatalogImpl(const CatalogOptions& options, const std::string& root);
  ~CatalogImpl() override;

  // To be called once, before anything else.
  Status Open(bool create_if_missing);

  Status Find(const Slice& name, DatabaseRef* ref) override;
  Status Create(const Slice& name) override;
  Status Drop(const Slice& name) override;
  Status CloseIdle(uint64_t idle_us, size_t* closed) override;
  void List(std::vector<std::string>* names) override;
  Counts GetCounts() override;
  Status Close() override;

 private:
  // Its databases do what DBImpl::InForkedChild says; it must not wait for
  // threads of the parent.
  void InForkedChild() override {
    MakeFree(&root_mutex_);
    MakeFree(&mutex_);
    MakeFree(&changed_);
  }

  using Entries =
      std::map<std::string, std::unique_ptr<CatalogEntry>, std::less<>>;

  // Not marked as cold, which would slow down what it is compared with.
  [[gnu::noinline]] Status FindSlowly(const Slice& name, DatabaseRef* ref);
  // A closed entry: open, or closed again if that fails.
  Status OpenLocked(CatalogEntry* entry, bool is_new) VARVE_REQUIRES(mutex_);
  // Waits while somebody else is at an entry. Null if there is none any more.
  CatalogEntry* AwaitLocked(const Slice& folded) VARVE_REQUIRES(mutex_);
  CatalogEntry* FindLocked(const Slice& folded) VARVE_REQUIRES(mutex_);
  CatalogEntry* AddLocked(const std::string& folded) VARVE_REQUIRES(mutex_);
  void EraseLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // From kOpen to kEnding, and back.
  void RetractLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  void PutBackLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // Whether nobody has a reference, up to `timeout_us` from now.
  bool AwaitReferences(const CatalogEntry& entry, uint64_t timeout_us);
  // Of an entry in kEnding without references: closes the database. Busy if it
  // has iterators or snapshots. Its mutex is not held.
  static Status CloseDatabase(CatalogEntry* entry);
  // Makes a database's directory, and its name safe.
  Status MakeDirectory(const std::string& path);
  // By a clock that is never set back.
  uint64_t NowUs() const { return MonotonicMicros(env_); }
  // Removes an entry whose database is not open, and its directory; or leaves
  // it closed, and leaving if its name is gone. May be repeated until it is OK.
  // Gives the mutex back meanwhile.
  Status RemoveLocked(CatalogEntry* entry) VARVE_REQUIRES(mutex_);
  // What other processes, and calls that failed, have left.
  Status RemoveAllDropped(const std::vector<std::string>& directories)
      VARVE_REQUIRES(mutex_);
  void RemoveDropped(const std::string& directory);
  bool IsIdleLocked(CatalogEntry* entry, uint64_t idle_us)
      VARVE_REQUIRES(mutex_);
  // Closes those of the entries, which are retracted, that nobody uses. With
  // `flush_unlogged`, a database stays open whose updates without a log cannot
  // be flushed.
  Status CloseRetracted(const std::vector<CatalogEntry*>& idle,
                        bool flush_unlogged, size_t* closed)
      VARVE_EXCLUDES(mutex_);
  // Closes some, and returns how many; with `only_if_many`, if databases hold
  // more descriptors than tables do.
  size_t CloseLeastUsed(bool only_if_many) VARVE_EXCLUDES(mutex_);
  std::vector<CatalogEntry*> RetractLeastUsed(bool only_if_many)
      VARVE_EXCLUDES(mutex_);
  // Before another one is opened.
  void MakeSpaceForDatabase() VARVE_EXCLUDES(mutex_);
  Status OpenDatabase(const std::string& path, CatalogEntry* entry)
      VARVE_EXCLUDES(mutex_);
  size_t Held() const override { return 0; }  // To be asked last.
  CloseResult GiveBack(size_t count, size_t keep) override;
  // GiveBack is not called any more, and what it began has ended.
  void StopGiving() VARVE_EXCLUDES(mutex_);
  std::string PathOf(const CatalogEntry& entry) const;

  // Immutable after Open.
  const bool folds_names_;  // See ExperimentFlags.
  const KeyFolding folding_;
  Options options_;
  const std::string root_;
  // Finds the files wherever the root is moved. Null if the Env has none.
  const std::unique_ptr<DirectoryEnv> directory_env_;
  Env* const env_;  // That, or the Env of the caller's options.
  const uint64_t drop_timeout_us_;
  std::unique_ptr<FilePool> file_pool_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Directory> directory_;

  DistributedRefCounts references_;
  NameCache name_cache_;  // Guarded by mutex_ where it says so.

  // Held from a change of the root's names until it is synced: a sync that
  // fails takes others' changes with it, and is told to one.
  Mutex root_mutex_;

  Mutex mutex_;
  CondVar changed_;  // Some entry's state has.
  Entries entries_ VARVE_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_indexes_ VARVE_GUARDED_BY(mutex_);
  uint32_t next_index_ VARVE_GUARDED_BY(mutex_) = 0;
  uint64_t next_dropped_ VARVE_GUARDED_BY(mutex_) = 1;
  bool closed_ VARVE_GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> shortages_seen_{0};
  std::atomic<bool> closing_{false};  // By closing_pool_.
  std::atomic<uint64_t> retry_at_us_{0};
  ThreadPool closing_pool_{{.name = "varve:idle"}};
};

}  // namespace varve
