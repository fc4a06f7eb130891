// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A Version is the set of tables of the database at one moment, by level. It is
// immutable. Each flush and compaction creates a new Version.

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

// A range of user keys. A null bound is open.
struct UserKeyRange {
  const Slice* begin = nullptr;  // Inclusive.
  const Slice* end = nullptr;    // Inclusive unless `end_is_exclusive`.
  bool end_is_exclusive = false;
};

// Returns the index of the first file whose largest key is at or after the
// internal key, or files.size(). The files must be sorted and must not overlap.
size_t FindFile(const InternalKeyComparator& comparator,
                const std::vector<FileMetaData*>& files,
                const Slice& internal_key);

// Returns the index of the first file that has keys at or after the user key,
// or files.size(). The files must be sorted and must not overlap.
size_t FirstFileFrom(const InternalKeyComparator& comparator,
                     const std::vector<FileMetaData*>& files,
                     const Slice& user_key);

// Returns whether all user keys of `a` are before all user keys of `b`.
bool EndsBefore(const InternalKeyComparator& comparator, const FileMetaData& a,
                const FileMetaData& b);

// Returns whether the file's key range overlaps the range.
bool FileOverlaps(const InternalKeyComparator& comparator,
                  const FileMetaData& file, const UserKeyRange& range);

// Returns the sum of the files' sizes in bytes.
uint64_t TotalFileSize(const std::vector<FileMetaData*>& files);

// May put an iterator around each source of tables of an iterator's tree.
class SourceWrapper {
 public:
  // `files` are the source's, in the order of their keys. They live as long as
  // the version.
  virtual std::unique_ptr<InternalIterator> Wrap(
      std::unique_ptr<InternalIterator> source,
      std::span<FileMetaData* const> files) = 0;

 protected:
  ~SourceWrapper() = default;
};

// Thread-safety: immutable after construction; references are guarded by the
// DB mutex.
class Version {
 public:
  // Creates a version with the given files and adds a reference to each. In
  // `levels`, level 0 is sorted newest first and the other levels by key.
  // Without `prefixes`, files are found by key comparisons only (ablation
  // block_index=binary_search).
  Version(const InternalKeyComparator* comparator, TableCache* table_cache,
          bool prefixes, LevelFiles levels);
  Version(const Version&) = delete;
  Version& operator=(const Version&) = delete;

  void RefLocked() { ++refs_; }
  // Releases a reference. If it was the last one, deletes the version, appends
  // the files that no other version references to *obsolete, and returns true.
  bool UnrefLocked(std::vector<FileMetaData*>* obsolete);

  const LevelFiles& levels() const { return levels_; }
  const std::vector<FileMetaData*>& files(int level) const {
    return levels_[level];
  }
  int NumFiles(int level) const {
    return static_cast<int>(levels_[level].size());
  }
  uint64_t NumBytes(int level) const { return level_bytes_[level]; }
  // Returns the largest sequence number of all tables, or 0.
  SequenceNumber LargestSequence() const { return largest_sequence_; }
  // Returns the deepest level that has files, or 0.
  int DeepestLevel() const { return deepest_level_; }
  // Returns the earliest of each of the times of a level's tables when the
  // version was created (FileMetaData::FindTimes). A time is 0 if it was not
  // known for each table. Both are UINT64_MAX for a level without tables.
  const TableTimes& OldestTimes(int level) const {
    return oldest_times_[level];
  }
  // Returns whether FileMetaData::hidden_bytes is not 0 for a file in the
  // deepest level. Returns false if that is level 0, because all of its tables
  // are compacted in time.
  bool HidesInDeepestLevel() const { return hides_in_deepest_level_; }

  // Tables whose compaction reclaims much space for its cost. What it frees is
  // at least a fifth of the bytes to compact, which are the table's own and
  // those that it overlaps in deeper levels. It frees the table's hidden
  // entries, and what its deletions hide.
  struct ReclaimCandidate {
    int level = 0;
    FileMetaData* file = nullptr;  // Of level 0: any. It is compacted whole.
    // No deeper level has keys of its range, and at least a quarter of its
    // entries is dead. It is rewritten in its level.
    bool in_place = false;
    // The bytes to compact. Counted up to what would be too many.
    uint64_t cost_bytes = 0;
  };
  const std::vector<ReclaimCandidate>& reclaim_candidates() const {
    return reclaim_candidates_;
  }

  // Returns whether a table that is not in the deepest level is marked for
  // compaction (FileMetaData::marked_for_compaction). In level 0 any counts.
  // Guarded by the DB mutex, like the marks.
  bool has_marked() const { return has_marked_; }
  // Looks for marks again. Call it when one was set, and when the version
  // becomes the current one.
  void FindMarkedLocked();

  // Returns about how many bytes a compaction of the file frees if no snapshot
  // needs them: its hidden entries, and what its deletions hide.
  uint64_t GainBytes(const FileMetaData& file) const;
  // Returns whether some table has many dead entries (HasManyDead).
  bool HasWaste() const { return has_waste_; }
  // Returns the number of entries in the tables whose counts are known.
  uint64_t KnownEntries() const;

  // Looks the key up in the tables, newest first. With `kSteps`, short steps
  // may also have trace spans. REQUIRES: the result's state is kNotFound; the
  // caller is inside a read-side critical section.
  template <bool kSteps>
  Status Get(const ReadOptions& options, const TableLookup& lookup,
             LookupResult* result) const;

  // Adds the versions of the lookup's key in the tables, newest first, until
  // *versions needs no more. REQUIRES: as Get.
  Status ReadVersions(const ReadOptions& options, const TableLookup& lookup,
                      MergeOperands* versions) const;

  // The position of a lookup in the files.
  struct FileCursor {
    int level = 0;        // Level of the last file that NextFile returned.
    size_t index = 0;     // Next index in level 0, or in filled_levels_.
    uint64_t prefix = 0;  // Prefix of the key, for level 0.
  };

  // One lookup of a MultiGet.
  struct MultiLookup {
    // The caller sets the options, the lookup, and the result, which is the
    // next member. MultiGet sets the status.
    TableProbe probe;
    LookupResult result;  // The caller sets the target, MultiGet the rest.
    // State of the lookup in progress.
    FileCursor cursor;
    std::shared_ptr<Table> owner;
    MultiLookup* next_waiting = nullptr;  // Next one that waits for a block.
  };
  // Performs the lookups together, table by table, so that their cache misses
  // overlap. REQUIRES: the caller is inside a read-side critical section.
  void MultiGet(MultiLookup** lookups, size_t count) const;

  // See RangeTombstoneCache::Find.
  Status FindRangeTombstones(
      const ReadOptions& options,
      std::shared_ptr<const VersionRangeTombstones>* sets) const {
    return tombstones_.Find(comparator_, table_cache_, options, levels_, sets);
  }
  // Appends iterators that together yield the version's entries. They leave out
  // entries that range deletions hide: those that `filters` has seen so far,
  // and `tombstones`. `tombstones` are the version's own, or null. `wrapper`,
  // which may be null, is called for each source, before range deletions.
  void AddIterators(const ReadOptions& options,
                    const VersionRangeTombstones* tombstones,
                    RangeTombstoneFilters* filters, SourceWrapper* wrapper,
                    ArenaVector<std::unique_ptr<InternalIterator>>* out) const;

  // Returns the files of a level that overlap the range. With `expand` and
  // level 0, the range grows until no other file overlaps it.
  std::vector<FileMetaData*> OverlappingFiles(int level, UserKeyRange range,
                                              bool expand) const;
  // Returns whether a file of the level overlaps the range.
  bool RangeOverlapsLevel(int level, const UserKeyRange& range) const;
  // Returns whether a file of a deeper level has keys of the file's range.
  bool OverlapsDeeper(int level, const FileMetaData& file) const;

  // Returns the approximate number of bytes in the tables before the key.
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const;

  const InternalKeyComparator& comparator() const { return *comparator_; }
  TableCache* table_cache() const { return table_cache_; }

 private:
  // Prefixes of the smallest and largest user keys of a level's files, after
  // their common first `common_size` bytes.
  struct LevelPrefixes {
    size_t common_size = 0;
    std::vector<uint64_t> smallest;
    std::vector<uint64_t> largest;
  };

  ~Version() = default;

  void MakePrefixes(int level);
  void FindReclaimCandidates();
  // Returns whether a compaction of all these files frees at least a fifth of
  // the bytes that it reads. Sets *cost_bytes to them.
  bool FreesMuch(int level, std::span<FileMetaData* const> files,
                 uint64_t* cost_bytes) const;
  // Returns the bytes of the files of a level above 0 that overlap the range,
  // which must have a begin. Stops counting at more than `enough`.
  uint64_t OverlappingBytes(int level, const UserKeyRange& range,
                            uint64_t enough) const;
  // Returns the one file of a level above 0 that may have the key, or null.
  const FileMetaData* FileWith(int level, const TableLookup& lookup) const;
  // Sets *prefix to the key's prefix if level 0 uses prefixes. Returns false if
  // no file of level 0 can have the key.
  bool Level0Prefix(const Slice& user_key, uint64_t* prefix) const;
  // Returns whether the file of level 0 at `index` may have the key.
  bool Level0Has(size_t index, const Slice& user_key, uint64_t prefix) const;
  // Returns the next file that may have the key, newest first, or null.
  // Advances the cursor.
  const FileMetaData* NextFile(const TableLookup& lookup,
                               FileCursor* cursor) const;
  // Returns the file after `file` in a level above 0 if it continues the
  // versions of the key, or null. RocksDB may divide them.
  const FileMetaData* FileAfter(int level, const FileMetaData& file,
                                const Slice& user_key) const;
  // Starts each lookup in its next table. Moves the lookups that have a next
  // table to the front, and returns their number.
  size_t StartNextTables(MultiLookup** lookups, size_t count) const;
  // Finishes the lookups in their current tables. Moves the lookups that must
  // continue in another table to the front, and returns their number.
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
  const LevelFiles levels_;
  LevelPrefixes prefixes_[kNumLevels];  // Empty if not used.
  uint64_t level_bytes_[kNumLevels] = {};
  TableTimes oldest_times_[kNumLevels];
  mutable RangeTombstoneCache tombstones_;
  std::vector<int> filled_levels_;  // Levels above 0 that have files.
  int deepest_level_ = 0;
  SequenceNumber largest_sequence_ = 0;
  bool hides_in_deepest_level_ = false;
  bool has_waste_ = false;
  uint64_t entry_bytes_ = 0;  // Average in the deepest level; 0 if unknown.
  std::vector<ReclaimCandidate> reclaim_candidates_;
  bool has_marked_ = false;
  int refs_ = 0;
};

// Returns an iterator over a level's files in order. It opens each file when it
// reaches it. `comparator`, `table_cache`, `files` and `memory` must outlive
// it. `memory` may be null. A file in `unread`, which may be null, is not
// opened. The iterator stops there and returns the file's status.
std::unique_ptr<InternalIterator> NewLevelIterator(
    const ReadOptions& options, const InternalKeyComparator* comparator,
    TableCache* table_cache, const std::vector<FileMetaData*>* files,
    std::shared_ptr<const UnreadTables> unread = nullptr,
    ThreadArena* memory = nullptr);

}  // namespace varve
