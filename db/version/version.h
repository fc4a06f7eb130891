// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Version is the set of tables that make up the database at some moment,
// level by level. It never changes; flushes and compactions make a new one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "db/version/range_tombstone_cache.h"
#include "db/version/range_tombstone_filter.h"
#include "db/version/version_edit.h"
#include "monitoring/read_counts.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/reader/table_cache.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"

namespace varve {

// Key ranges for questions about tables; null is open-ended.
struct UserKeyRange {
  const Slice* begin = nullptr;
  const Slice* end = nullptr;  // Inclusive, or not.
  bool end_is_exclusive = false;
};

// The first of a sorted, non-overlapping level's files whose largest key is
// at or behind the internal key; files.size() if there is none.
size_t FindFile(const InternalKeyComparator& comparator,
                const std::vector<FileMetaData*>& files,
                const Slice& internal_key);

// The first of them that has keys at or behind the user key, or files.size().
size_t FirstFileFrom(const InternalKeyComparator& comparator,
                     const std::vector<FileMetaData*>& files,
                     const Slice& user_key);

// Whether all user keys of a file come before those of another.
bool EndsBefore(const InternalKeyComparator& comparator, const FileMetaData& a,
                const FileMetaData& b);

// Whether the file has keys in the range.
bool FileOverlaps(const InternalKeyComparator& comparator,
                  const FileMetaData& file, const UserKeyRange& range);

uint64_t TotalFileSize(const std::vector<FileMetaData*>& files);

// Thread-safety: immutable after construction; references are guarded by the
// DB mutex.
class Version {
 public:
  // `levels`: level 0 newest first, the others in key order. Takes a
  // reference on each file.
  // Without `prefixes`, files are found by comparisons alone (ablation
  // block_index=binary_search).
  Version(const InternalKeyComparator* comparator, TableCache* table_cache,
          bool prefixes, std::vector<FileMetaData*> levels[kNumLevels]);
  Version(const Version&) = delete;
  Version& operator=(const Version&) = delete;

  void RefLocked() { ++refs_; }
  // Drops a reference. After the last one deletes the version, appends the
  // files that no version holds any more to *obsolete, and returns true.
  bool UnrefLocked(std::vector<FileMetaData*>* obsolete);

  const std::vector<FileMetaData*>& files(int level) const {
    return levels_[level];
  }
  int NumFiles(int level) const {
    return static_cast<int>(levels_[level].size());
  }
  uint64_t NumBytes(int level) const { return level_bytes_[level]; }
  // The deepest level that has files; 0 if none has.
  int DeepestLevel() const { return deepest_level_; }
  // Whether FileMetaData::hidden_bytes is not 0 somewhere in that level; false
  // of level 0, whose tables all move on.
  bool HidesInDeepestLevel() const { return hides_in_deepest_level_; }

  // Tables above the deepest level whose deletions hide at least a third of
  // what they overlap in deeper levels, and of themselves: to compact them
  // costs little for the space that it gives back. Those of level 0 together.
  struct Reclaimer {
    int level = 0;
    FileMetaData* file = nullptr;
  };
  const std::vector<Reclaimer>& reclaimers() const { return reclaimers_; }

  // Looks through the tables, newest first. REQUIRES: the result's state is
  // kNotFound; inside a read section. With `kSteps`, short steps may have spans
  // as well.
  template <bool kSteps>
  Status Get(const ReadOptions& options, const TableLookup& lookup,
             LookupResult* result) const;

  // How far a lookup has got through the files.
  struct FileCursor {
    int level = 0;        // Of the file that NextFile returned last.
    size_t index = 0;     // The next one in level 0, or in filled_levels_.
    uint64_t prefix = 0;  // The key's, in level 0.
  };

  // One of several lookups at once.
  struct MultiLookup {
    // Set by the caller.
    TableLookup lookup;
    LookupResult result;  // The target.
    // Set by MultiGet, as is the rest of result.
    Status status;
    // Where it has got to.
    FileCursor cursor;
    const Table* table = nullptr;
    std::shared_ptr<Table> owner;
    TableProbe probe;
    MultiLookup* next_waiting = nullptr;  // For a block that is read.
  };
  // Does the lookups together, table by table, so that their cache misses
  // overlap. REQUIRES: inside a read section.
  void MultiGet(const ReadOptions& options, MultiLookup** lookups,
                size_t count) const;

  // See RangeTombstoneCache::Find.
  Status FindRangeTombstones(
      std::shared_ptr<const VersionRangeTombstones>* sets) const {
    return tombstones_.Find(comparator_, table_cache_, levels_, sets);
  }
  // Appends iterators that together yield all entries, without those that are
  // hidden by the range deletions that `filters` has seen so far and by
  // `tombstones`, the version's own or null.
  void AddIterators(
      const ReadOptions& options, const VersionRangeTombstones* tombstones,
      RangeTombstoneFilters* filters,
      ContextVector<std::unique_ptr<InternalIterator>>* out) const;

  // The files of a level that have keys in the range. On level 0 the range
  // grows until no further file overlaps it, if `expand`.
  std::vector<FileMetaData*> OverlappingFiles(int level, UserKeyRange range,
                                              bool expand) const;
  bool RangeOverlapsLevel(int level, const UserKeyRange& range) const;

  // Bytes of tables before the key would come, about.
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const;

  const InternalKeyComparator& comparator() const { return *comparator_; }
  TableCache* table_cache() const { return table_cache_; }

 private:
  // Prefixes of a level's smallest and largest user keys, behind what all of
  // them begin with.
  struct LevelPrefixes {
    size_t common_size = 0;
    std::vector<uint64_t> smallest;
    std::vector<uint64_t> largest;
  };

  ~Version() = default;

  void MakePrefixes(int level);
  void FindReclaimers();
  // Whether the deletions of these files, which are compacted together, hide at
  // least a third of what that meets.
  bool HideMuch(int level, std::span<FileMetaData* const> files) const;
  // Of the files of a level above 0 that have keys in the range, which has a
  // begin; only so many as make more than `enough`.
  uint64_t OverlappingBytes(int level, const UserKeyRange& range,
                            uint64_t enough) const;
  // The one file of a level above 0 that may have the key, or null.
  const FileMetaData* FileWith(int level, const TableLookup& lookup) const;
  // Sets *prefix if level 0 has prefixes. Returns false if no file of level 0
  // can have the key. REQUIRES: level 0 is not empty.
  bool Level0Prefix(const Slice& user_key, uint64_t* prefix) const;
  // Returns whether file `index` of level 0 may have the key. `prefix` is from
  // Level0Prefix.
  bool Level0Has(size_t index, const Slice& user_key, uint64_t prefix) const;
  // The next file that may have the key, newest first, or null. Moves the
  // cursor on.
  const FileMetaData* NextFile(const TableLookup& lookup,
                               FileCursor* cursor) const;
  // Begins the lookups in the next table of each. Those that have one move to
  // the front; returns how many they are.
  size_t StartNextTables(const ReadOptions& options, MultiLookup** lookups,
                         size_t count) const;
  // Ends the lookups in their tables. The same of those that must go on.
  static size_t FinishProbes(MultiLookup** lookups, size_t count);
  bool InRange(const FileMetaData& file, const Slice& user_key) const {
    if (comparator_->CompareUser(user_key, file.smallest_user_key()) < 0) {
      return false;
    }
    const int r = comparator_->CompareUser(user_key, file.largest_user_key());
    return r < 0 || (r == 0 && !file.EndIsExclusive());
  }

  const InternalKeyComparator* const comparator_;
  TableCache* const table_cache_;
  std::vector<FileMetaData*> levels_[kNumLevels];
  LevelPrefixes prefixes_[kNumLevels];  // Empty where they are not used.
  uint64_t level_bytes_[kNumLevels] = {};
  mutable RangeTombstoneCache tombstones_;
  std::vector<int> filled_levels_;  // Above 0: those that have files.
  int deepest_level_ = 0;
  bool hides_in_deepest_level_ = false;
  std::vector<Reclaimer> reclaimers_;
  int refs_ = 0;
};

// An iterator over a level's files one behind the other, each opened when it
// is reached. Both must outlive it, and so must `memory`, which may be null.
// Files that are in `unread`, which may be null, are not opened, but end the
// walk with the status there.
std::unique_ptr<InternalIterator> NewLevelIterator(
    const ReadOptions& options, const InternalKeyComparator* comparator,
    TableCache* table_cache, const std::vector<FileMetaData*>* files,
    std::shared_ptr<const UnreadTables> unread = nullptr,
    ContextMemory* memory = nullptr);

}  // namespace varve
