// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A column family: its identity and options, its tables, and the SuperVersion
// that reads use. Its memtables, its pace and its compactions are classes of
// their own. The log, the sequence numbers and the snapshots are the
// database's.
//
// DBImpl holds the default family by value, so that a read finds its
// SuperVersionCache without a dependent load. A handle points to its family.
//
// Thread-safety: functions called ...Locked require the DB mutex. Only the
// leader of the write queue may call the functions marked "for the leader". The
// leader changes the current memtable with the mutex held, so either of the two
// suffices to read it. Options change with both held.
// Lifetime: counted. FamilySet frees a family that was dropped when nobody uses
// it any more.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/table_output.h"
#include "db/dead_entries/dead_range_cleaner.h"
#include "db/dead_entries/dead_walks.h"
#include "db/family/family_compactions.h"
#include "db/family/family_memtables.h"
#include "db/family/family_pace.h"
#include "db/options/db_mutex.h"
#include "db/snapshot/snapshot_registry.h"
#include "db/snapshot/super_version_cache.h"
#include "db/version/version_set.h"
#include "monitoring/statistics.h"
#include "table/reader/file_pool.h"
#include "table/reader/table_cache.h"
#include "util/base/check.h"
#include "util/base/mutex.h"
#include "util/threads/striped_count.h"
#include "varve/options.h"

namespace varve {

class ColumnFamily final : private SuperVersionDisposer {
 public:
  // The parts that the database's families share. All must outlive them.
  struct Shared {
    Env* env;
    StatisticsImpl* stats;  // May be null.
    Mutex* mutex;           // The DB's.
    WriteQueue* write_queue;
    // Called with the mutex held when a reader has released memory that another
    // thread is to free.
    std::function<void()> free_later;
    // Returns the newest visible sequence number.
    std::function<SequenceNumber()> last_sequence;
    // Called after a reader has reported dead entries. Must not wait.
    std::function<void()> wake_cleaner;
    // Called when the budget of write buffers is exceeded and the family's
    // memtable is to be switched. Must not wait for a flush.
    std::function<void(ColumnFamily*)> request_switch;
    // The registry of snapshots. The default family creates it.
    SnapshotRegistry* snapshots = nullptr;
  };

  // `options` must outlive this object, unless the family owns them.
  ColumnFamily(std::string name, Options* options, const Shared& shared);
  ColumnFamily(std::string name, std::unique_ptr<Options> options,
               const Shared& shared);
  // REQUIRES: Close was called.
  ~ColumnFamily() = default;
  ColumnFamily(const ColumnFamily&) = delete;
  ColumnFamily& operator=(const ColumnFamily&) = delete;

  // Creates the family's table cache on the database's pool of files. REQUIRES:
  // called once, before all other functions.
  void MakeTables(const std::string& db_path, const FileOptions& file_options,
                  FilePool* file_pool, Logger* info_log, VersionSet* versions);
  // Releases the memtables and tables. Reads find nothing from now on, and that
  // the database is closed. REQUIRES: VersionSet::CloseLocked was called.
  void EmptyLocked() VARVE_REQUIRES(kDbMutex);
  // Releases everything. REQUIRES: all reads have ended; the mutex is not held.
  void Close() VARVE_EXCLUDES(kDbMutex);
  // Replaces Close in a child created by fork(), where the family is never
  // freed: threads that end leave its slots alone.
  void Abandon();

  // ---- Identity ----

  const std::string& name() const { return name_; }
  uint32_t id() const { return versions_->id(); }
  const Options& options() const { return *options_; }
  Options* mutable_options() { return options_; }
  const InternalKeyComparator& comparator() const { return comparator_; }
  TableCache* table_cache() const { return table_cache_.get(); }
  FamilyVersions* versions() const { return versions_.get(); }
  Version* version() const { return versions_->current(); }
  // The settings of its tables. Set them when the id is known, before the first
  // job.
  void SetOutputContext(const std::string& db_path,
                        const std::string& db_identity,
                        const std::string& session_identity);
  const TableOutputContext* output_context() const { return &output_context_; }
  // Returns the settings for a job on an open database.
  TableOutputContext OutputContextLocked() const VARVE_REQUIRES(kDbMutex);
  // Changes with leadership and the mutex held, so either suffices.
  bool is_dropped() const { return is_dropped_; }
  void SetDroppedLocked() VARVE_REQUIRES(kDbMutex) { is_dropped_ = true; }

  // A new family has one reference.
  void Ref() {
    // relaxed: the caller holds a reference, or the mutex of a live family.
    const int before = refs_.fetch_add(1, std::memory_order_relaxed);
    VARVE_DCHECK(before > 0);
    static_cast<void>(before);
  }
  // Releases a reference. If it was the last one, returns true, and the caller
  // must give the family to FamilySet::BuryLocked.
  [[nodiscard]] bool Unref() {
    // acq_rel pairs with itself: all uses happen before the end.
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // ---- Reads ----

  // Counts the iterators of users, each of which keeps the family. To add one,
  // the caller needs a reference. `stripe`: of any thread.
  void CountIterator(uint32_t stripe, int64_t count) {
    iterators_.Add(stripe, count);
  }
  int64_t iterators() const { return iterators_.Sum(); }
  // Usually takes no mutex.
  SuperVersionCache& super_versions() { return super_versions_; }
  const SuperVersionCache& super_versions() const { return super_versions_; }
  SnapshotRegistry* snapshots() const { return snapshots_; }
  // Dead entries that iterators remember and report, and what is done about
  // them.
  DeadWalks* dead_walks() { return &dead_walks_; }
  const DeadWalks* dead_walks() const { return &dead_walks_; }
  DeadRangeCleaner* cleaner() { return &cleaner_; }
  const DeadRangeCleaner* cleaner() const { return &cleaner_; }
  // Makes the current memtables and version visible to reads.
  // `moment` is as in SuperVersion.
  void InstallSuperVersionLocked(
      bool closed, std::unique_ptr<const FamilyMoment> moment = nullptr)
      VARVE_REQUIRES(kDbMutex);
  // Returns true if MemTable::Overlaps is true for any memtable.
  bool MemTablesOverlap(const Slice* begin, const Slice* end)
      VARVE_EXCLUDES(kDbMutex);

  // ---- Memtables, pace and compactions ----

  FamilyMemtables& memtables() { return memtables_; }
  const FamilyMemtables& memtables() const { return memtables_; }
  // Returns the memtable that is written to. REQUIRES: leadership or the mutex.
  MemTable* memtable() const { return memtables_.current(); }
  FamilyPace& pace() { return pace_; }
  const FamilyPace& pace() const { return pace_; }
  FamilyCompactions& compactions() { return compactions_; }
  const FamilyCompactions& compactions() const { return compactions_; }
  // Makes `next` the current memtable. For the leader.
  void SwitchLocked(MemTable* next) VARVE_REQUIRES(kDbMutex);
  // Removes and returns the `count` oldest immutable memtables, which are in
  // tables. Give them to FamilyMemtables::RetireLocked after the next install.
  std::vector<MemTable*> RemoveFlushedLocked(size_t count)
      VARVE_REQUIRES(kDbMutex);
  // Counts the edit's tables as the output of `flushes` flushes.
  void CountFlushesLocked(const VersionEdit& edit, size_t flushes,
                          uint64_t micros) VARVE_REQUIRES(kDbMutex);

 private:
  Mutex* mutex() const VARVE_RETURN_CAPABILITY(kDbMutex) { return mutex_; }
  ColumnFamily(std::string name, std::unique_ptr<Options> owned,
               Options* options, const Shared& shared);

  void DisposeLocked(SuperVersion* super_version) override
      VARVE_REQUIRES(kDbMutex);
  void FreeLaterLocked() override VARVE_REQUIRES(kDbMutex) { free_later_(); }

  // Immutable.
  const std::string name_;
  const std::unique_ptr<Options> owned_options_;  // May be null.
  Options* const options_;                        // See DB::SetOptions.
  const InternalKeyComparator comparator_;
  Env* const env_;
  StatisticsImpl* const stats_;
  Mutex* const mutex_;
  const std::function<void()> free_later_;
  VersionSet* version_set_ = nullptr;
  std::unique_ptr<TableCache> table_cache_;
  std::unique_ptr<FamilyVersions> versions_;
  TableOutputContext output_context_;
  const bool owns_snapshots_;  // The default family does.
  // Deletes itself. It pins SuperVersions of the default family.
  SnapshotRegistry* const snapshots_;
  SuperVersionCache super_versions_;
  DeadWalks dead_walks_;
  DeadRangeCleaner cleaner_;
  std::atomic<int> refs_{1};
  bool is_dropped_ = false;
  StripedCount iterators_;

  FamilyMemtables memtables_;
  FamilyCompactions compactions_;
  FamilyPace pace_;
};

}  // namespace varve
