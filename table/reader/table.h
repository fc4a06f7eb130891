// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "monitoring/read_counts.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/properties.h"
#include "table/block/range_tombstone_set.h"
#include "table/block/table_options.h"
#include "table/index/table_index.h"
#include "table/reader/read_target.h"
#include "table/reader/table_core.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/status.h"

namespace varve {

// The outcome of looking for a key in one memtable or table.
enum class LookupState : uint8_t {
  kNotFound,  // Nothing about the key here; look further down.
  kFound,     // The value was set.
  kDeleted,   // Deleted here; look no further.
};

// One lookup in a table.
struct TableLookup {
  Slice user_key;
  uint64_t hash = 0;  // The filter hash, PreviewXxh3, of the user key.
  SequenceNumber sequence = 0;
};

// The result of a lookup.
struct LookupResult {
  ReadTarget* target = nullptr;  // Set by the caller.
  LookupState state = LookupState::kNotFound;
  ReadCounts counts;  // Added to.
};

class Block;
class BlockRef;
class Table;

// Where a lookup that goes in steps has got to.
struct TableProbe {
  // Set by the caller.
  const ReadOptions* options = nullptr;
  TableLookup lookup;
  LookupResult* result = nullptr;
  // Results.
  bool done = false;
  Status status;
  // Between the steps.
  const Table* table = nullptr;
  SequenceNumber cover = 0;  // Of the newest range deletion of the key.
  TableIndex::Place place;
  size_t block_index = 0;
  bool in_node = false;  // The place is in a node, or block_index is set.
  Block* block = nullptr;
  uint32_t candidate = 0;

  // After ProbeBlock: it needs a block that is not in memory.
  bool Waits() const { return !done && block == nullptr; }
};

// The last user key, or one right behind it, of a part of a table.
struct TableAnchor {
  std::string user_key;
  uint64_t bytes = 0;  // Of the part in the file.
};

// An open table file. Reads RocksDB's block-based tables of format versions 0
// to 5 and LevelDB's.
// Thread-safety: thread-safe; immutable after construction but for the cache.
class Table {
 public:
  // Reads footer, properties, index and filter, and checks them. Corruption
  // names file and offset; NotSupported names the feature.
  static Status Open(const TableReaderOptions& options,
                     std::unique_ptr<RandomAccessFile> file,
                     std::unique_ptr<Table>* table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Looks for the newest update of the lookup's key that its sequence number
  // sees. Records a span for each step if `kSpans`. REQUIRES: the result's
  // state is kNotFound; the caller is inside a read section.
  template <bool kSpans>
  Status Get(const ReadOptions& options, const TableLookup& lookup,
             LookupResult* result) const;

  // The same in four steps, so that the cache misses of many lookups overlap:
  // each step starts loading what the next one reads. A probe that is done
  // has its result and status set, and is not to be given to further steps.
  // REQUIRES: all steps are inside one read section.
  void StartProbe(TableProbe* probe) const;  // Filter line, index node.
  void ProbeIndex(TableProbe* probe) const;  // Block's header.
  void ProbeBlock(TableProbe* probe) const;  // Entry.
  void FinishProbe(TableProbe* probe) const;

  // May come before FinishProbe: the blocks that the probes wait for, of any
  // tables of one database, are read at once. Some may have to go on waiting,
  // which FinishProbe ends. REQUIRES: count <= kMaxReadBlocks; all wait.
  static constexpr size_t kMaxReadBlocks = 64;
  static void ReadBlocks(TableProbe** probes, size_t count);

  // The iterator must not outlive the table. With readahead_size of
  // ReadOptions above 0, or for scans noticed by themselves, file ranges are
  // read ahead.
  std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options) const;
  // The same, for an iterator that keeps the table open.
  static std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options, std::shared_ptr<const Table> table);

  // Bytes of the file before the place where the key is or would be, about.
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const;

  // Appends the ends of up to `count` parts, about equal in size, that
  // together are all data blocks. REQUIRES: count > 0.
  void AppendAnchors(size_t count, std::vector<TableAnchor>* anchors) const;

  // Reads every block and compares checksums, and walks every entry.
  Status VerifyChecksum() const;

  const TableProperties& properties() const { return core_.properties; }
  // What a TableIterator goes through; lives as long as the table.
  const TableCore& core() const { return core_; }
  // The range deletions, as they are in the file: they may reach beyond the
  // keys that the MANIFEST gives to the table. Null if there are none. Lookups
  // obey them; iterators do not.
  const RangeTombstoneSet* tombstones() const { return core_.tombstones.get(); }
  // Bytes of memory for index, filter and the rest, without cached blocks.
  size_t ApproximateMemoryUsage() const {
    return core_.ApproximateMemoryUsage();
  }

 private:
  Table() = default;
  // The general way through blocks, from probe->block_index on: reads what is
  // not in memory, and needs no fingerprints. Sets done.
  void GetFromBlocks(TableProbe* probe) const;
  // The two halves of ProbeIndex.
  void ProbeFilter(TableProbe* probe) const;
  void FindBlock(TableProbe* probe) const;
  void NotInBlock(TableProbe* probe) const;
  // Looks through a block that was waited for, or its body if it is empty.
  void LookIn(BlockRef* block, const Slice& body, TableProbe* probe) const;
  // These look in one block, in memory or in its file's form, and say whether
  // the lookup ends here: at an entry at or behind the key, or an error.
  bool FindInBlock(BlockRef* block, TableProbe* probe) const;
  bool FindInBody(const Slice& body, size_t i, TableProbe* probe) const;
  // Takes note of the newest entry of the key. True if it has a value.
  bool Conclude(uint64_t trailer, TableProbe* probe) const;
  // Adds one to a lane of the lookup's ReadCounts.
  static void Count(const TableProbe& probe, uint64_t lane);

  TableCore core_;
};

}  // namespace varve
