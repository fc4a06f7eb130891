// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Reads of an open database: of one key, of several, and iterators. They take
// no mutex in most cases. Thread-safety: thread-safe.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "db/engine/db_iterator.h"
#include "db/jobs/db_core.h"
#include "db/snapshot/super_version_cache.h"
#include "monitoring/read_counts.h"
#include "monitoring/statistics.h"
#include "table/reader/merge_operands.h"
#include "table/reader/read_target.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class ColumnFamilyHandle;

// A lookup of a MultiGet that found merge operands. They are applied when all
// lookups have ended. Thread-safety: owned by one thread.
struct MergedLookup {
  Slice key;
  ReadTarget target;
  Status* status;  // Of the lookup.
  MergeOperands operands;
};

class DbReader final : private IteratorOwner {
 public:
  // `core` must outlive this object.
  explicit DbReader(DbCore& core);
  DbReader(const DbReader&) = delete;
  DbReader& operator=(const DbReader&) = delete;

  // Implement the calls of DB for one family. Value is PinnableSlice or
  // std::string.
  Status GetInto(ColumnFamily* family, const ReadOptions& options,
                 const Slice& key, ReadTarget* target);
  template <typename Value>
  void MultiGetInto(ColumnFamily* family, const ReadOptions& options,
                    size_t count, const Slice* keys, Value* values,
                    Status* statuses);
  template <typename Value>
  void MultiGetFamilies(const ReadOptions& options, size_t count,
                        ColumnFamilyHandle* const* families, const Slice* keys,
                        Value* values, Status* statuses);
  template <bool kOwn>
  std::unique_ptr<Iterator> NewIteratorFor(ColumnFamily* family,
                                           const ReadOptions& options);
  std::unique_ptr<Iterator> NewOwnIterator(ColumnFamily* family);
  // Collects the operands of the key, and the value below them. Both are empty
  // if there is no entry.
  Status ReadVersions(ColumnFamily* family, const ReadOptions& options,
                      const Slice& key, MergeOperands* versions);

  // Has dead entries noted from now on: the database is written to.
  void NoteWaste();

 private:
  [[gnu::noinline]] Status TracedGet(ColumnFamily* family,
                                     const ReadOptions& options,
                                     const Slice& key, ReadTarget* target);
  Status MeasuredGet(ColumnFamily* family, const ReadOptions& options,
                     const Slice& key, ReadTarget* target);
  template <bool kMeasured>
  Status LookUp(ColumnFamily* family, const ReadOptions& options,
                const Slice& key, ReadTarget* target);
  [[gnu::noinline]] Status GetMerged(ColumnFamily* family,
                                     const ReadOptions& options,
                                     const Slice& key, ReadTarget* target);
  Status ApplyMerge(ColumnFamily* family, const Slice& key,
                    const MergeOperands& operands, ReadTarget* target);
  [[gnu::noinline]] uint64_t FinishMerges(ColumnFamily* family,
                                          std::vector<MergedLookup>* lookups);
  void CountGet(const LookupResult& result, bool in_memtable, bool found);
  template <bool kOwn>
  std::unique_ptr<Iterator> NewPlainIterator(ColumnFamily* family,
                                             const ReadOptions& options,
                                             SkipLimit* skip_limit);
  [[gnu::noinline]] std::unique_ptr<Iterator> NewSpecialIterator(
      ColumnFamily* family, const ReadOptions& options);
  Status BeginIterator(ColumnFamily* family, const ReadOptions& options,
                       IteratorState* reused, DbIteratorParts* parts) override;
  [[gnu::noinline]] static void UsePrefixes(const ColumnFamily& family,
                                            const ReadOptions& options,
                                            const SuperVersion& super_version,
                                            DbIteratorParts* parts);
  void ReleaseSuperVersion(const DbIteratorParts& parts) override;
  void EndIterator(const DbIteratorParts& parts) override;
  [[gnu::noinline]] void BuryFamilies();
  static bool SeesAllUpTo(const ColumnFamily& family,
                          const ReadOptions& options,
                          const SuperVersion& super_version);
  SequenceNumber ReadSequence(const ReadOptions& options) const;
  SuperVersionCache::Read BeginRead(ColumnFamily* family,
                                    const ReadOptions& options);

  DbCore& core_;
  // Members of the core. A read finds them without a further load.
  StatisticsImpl* const stats_;
  const VersionSet* const versions_;
  ColumnFamily& family_;  // The default one.
  // See ExperimentFlags.
  const bool renews_arenas_;
  std::atomic<bool> ignores_waste_;
};

}  // namespace varve
