// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The sources of an iterator (memtables, tables of level 0, levels), and which
// of them have no key of a prefix. A source that is left out costs a seek
// nothing. Only the trees of iterators that ask filters for prefixes have these
// objects, so other iterators execute no instruction for them.
//
// Whether a source has a key of the prefix is asked once for each seek of the
// user, before the tree seeks, and holds for the whole prefix. All seeks inside
// the tree up to the user's next one find the source empty. The user's iterator
// must therefore not leave the prefix while a source is left out
// (prefix_iterator).
//
// Thread-safety: owned by one thread at a time, as the iterator.

#include <memory>
#include <span>
#include <vector>

#include "db/memtable/memtable.h"
#include "db/version/version.h"
#include "monitoring/statistics.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "util/threads/thread_arena.h"
#include "varve/slice_transform.h"

namespace varve {

class PrefixSource;

class PrefixSources final : public SourceWrapper, public InArena {
 public:
  // Filters of tables and memtables that were made with an extractor of another
  // name are not asked. All arguments must outlive this. `statistics` and
  // `memory` may be null.
  PrefixSources(const InternalKeyComparator* comparator,
                TableCache* table_cache, const SliceTransform* extractor,
                StatisticsImpl* statistics, ThreadArena* memory);

  // Return an iterator over the source that can be left out. It must not be
  // used after this object's end.
  std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source,
      std::span<FileMetaData* const> files) override;
  std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source, const MemTable* memtable);

  enum class LeftOut : uint8_t { kNone, kSome, kAll };
  // Leaves out the sources that have no key with the prefix. `target` is a key
  // with the prefix. A seek for which all are left out need not be done; it is
  // counted here.
  LeftOut LeaveOut(const Slice& prefix, const Slice& target);
  // Leaves out no source any more.
  void TakeAll();

 private:
  // A question about all sources.
  struct Query {
    Slice prefix;
    Slice target;
    uint64_t hash;
  };

  bool MayHave(const PrefixSource& source, const Query& query);
  bool AnyFileMayHave(std::span<FileMetaData* const> files, const Query& query);
  bool FileMayHave(FileMetaData* file, const Query& query);
  bool HasPrefix(const Slice& user_key, const Query& query) const {
    return extractor_->InDomain(user_key) &&
           extractor_->Transform(user_key) == query.prefix;
  }
  std::unique_ptr<InternalIterator> Add(std::unique_ptr<PrefixSource> source);

  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  const SliceTransform* const extractor_;
  StatisticsImpl* const statistics_;
  ArenaVector<PrefixSource*> sources_;  // In the tree.
  uint64_t checked_ = 0;                // Filters asked in the current query.
  uint64_t useful_ = 0;                 // Those that answered no.
};

}  // namespace varve
