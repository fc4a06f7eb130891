// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
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
#include "util/base/mutex.h"
#include "varve/env.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/status.h"

namespace varve {

// The outcome of a lookup in one memtable or table.
enum class LookupState : uint8_t {
  kNotFound,  // No entry of the key here; search lower levels.
  kFound,     // The value is set.
  kDeleted,   // Deleted here; end the search.
  // The newest version here is a merge operand. ReadVersions finds the value.
  kMerge,
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
class MergeOperands;
class Table;

// The state of a lookup in steps. StartProbe may be called again, for another
// table, if the status is OK.
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
  SequenceNumber cover = 0;  // Sequence of the newest range deletion.
  TableIndex::Place place;
  size_t block_index = 0;
  bool in_node = false;  // `place` leads to a node.
  Block* block = nullptr;
  uint32_t candidate = 0;

  // After ProbeBlock: the lookup needs a block that is not in memory, or a part
  // of the table, whose number is block_index then.
  bool Waits() const { return !done && block == nullptr; }
};

// The last user key of a part of a table, or a key just after it.
struct TableAnchor {
  std::string user_key;
  uint64_t bytes = 0;  // Size of the part in the file.
};

// An open table file. Reads RocksDB's block-based tables of format versions 0
// to 5, and LevelDB's tables.
//
// Deferred loading: one-time initialization by a mutex and a flag
// (double-checked locking). Index, filter and dictionary of a large table may
// be loaded after the table is open (IndexLoading).
// Words and states
//   `is_loaded_` is false while they are not loaded. The thread that holds
//   `load_mutex_` and finds the flag false owns core_.index, core_.filter,
//   core_.filter_contents, core_.deferred and the loader's dictionary. While
//   the flag is true, all of the core is immutable.
// Transitions
//   T1 A thread finds the flag true by acquire, and uses the table.
//   T2 Otherwise Load takes the mutex, tests the flag again, and reads the
//      blocks. If it succeeds, it stores true with release.
//   T3 If it fails, the flag stays false, and nobody uses the parts that were
//      read. The next thread that needs the table reads all of them again.
// Invariants
//   I1 The flag never changes from true to false. A part is therefore never
//      changed or freed while another thread reads it.
//   I2 A pointer to the table gets into a CachedTableHandle only after T1 or
//      T2. A read through a handle thus does not test the flag.
// Why each order is needed
//   T1's acquire pairs with T2's release: the parts are seen whole. A thread
//   that finds the flag true in T2 needs no acquire, because the mutex orders
//   it after the loading thread.
// Bad interleavings prevented
//   B1 Two threads find the flag false at once. The second waits for the mutex,
//      and then finds the flag true. It does not load again.
//   B2 A thread asks for properties, range deletions or memory while another
//      one loads. The first two are set before the table is shared, and
//      AccountMemory publishes the memory in a word of its own.
//   B3 The table is evicted, or its file removed, while a thread loads it. The
//      thread holds a reference to the table, and the table to its file.
// Freshness and progress
//   Threads that need the index of one table wait for the thread that loads it.
//   They hold no other mutex.
// Reclamation
//   The parts are freed with the table.
//
// Thread-safety: thread-safe; immutable after construction except for deferred
// loading and the cache.
class Table {
 public:
  // Reads and checks footer, properties, index and filter. Corruption names
  // file and offset. NotSupported names the feature. Index and filter may be
  // left for Load, if options.index_loading permits it.
  static Status Open(const TableReaderOptions& options,
                     std::unique_ptr<RandomAccessFile> file,
                     std::unique_ptr<Table>* table);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Returns whether all parts of the table are loaded. Until then, only Load
  // and the last four accessors below may be called.
  bool is_loaded() const {
    // acquire pairs with T2.
    return is_loaded_.load(std::memory_order_acquire);
  }
  // Loads what Open left out. Returns the errors that Open would have returned,
  // and may then be called again. Reads the file; waits for a thread that does.
  Status Load() VARVE_EXCLUDES(load_mutex_);

  // Looks up the newest update of the key that is visible at the lookup's
  // sequence number. Records a span for each step if `kSpans`. REQUIRES: the
  // result's state is kNotFound; the caller is inside a read-side critical
  // section.
  template <bool kSpans>
  Status Get(const ReadOptions& options, const TableLookup& lookup,
             LookupResult* result) const;

  // Adds the versions of the key that are visible at the lookup's sequence
  // number, newest first, until *versions needs no more. REQUIRES: as Get.
  Status ReadVersions(const ReadOptions& options, const TableLookup& lookup,
                      MergeOperands* versions) const;

  // Sets *newest to the sequence number of the newest version of the key, or of
  // the newest range deletion that covers it, or to 0. The lookup's own number
  // is not used. REQUIRES: as Get, without a result.
  Status FindNewest(const ReadOptions& options, const TableLookup& lookup,
                    SequenceNumber* newest) const;

  // Get in four steps, so that the cache misses of many lookups overlap. Each
  // step prefetches the memory that the next one reads; the comment after the
  // step names it. A probe that is done has its result and status set, and must
  // not be passed to further steps.
  // REQUIRES: all steps are inside one read-side critical section.
  void StartProbe(TableProbe* probe) const;  // Filter line, index node.
  void ProbeIndex(TableProbe* probe) const;  // Block's header.
  void ProbeBlock(TableProbe* probe) const;  // Entry.
  void FinishProbe(TableProbe* probe) const;

  // Reads the blocks that the probes wait for together, and before them the
  // parts of partitioned tables (table_parts.h). The tables may be any of one
  // database. Optional before FinishProbe. Probes may remain waiting;
  // FinishProbe completes them. The order of the array changes.
  // REQUIRES: count <= kMaxReadBlocks; all wait.
  static constexpr size_t kMaxReadBlocks = 64;
  static void ReadBlocks(TableProbe** probes, size_t count);

  // Returns an iterator that must not outlive the table. It reads ahead if
  // ReadOptions::readahead_size is above 0, or when it detects a scan.
  std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options) const;
  // Returns an iterator that keeps the table open.
  static std::unique_ptr<InternalIterator> NewIterator(
      const ReadOptions& options, std::shared_ptr<const Table> table);

  // Returns the approximate offset in the file of the key, or of the place
  // where it would be.
  uint64_t ApproximateOffsetOf(const Slice& internal_key) const;

  // Divides the data blocks into up to `count` parts of about equal size, and
  // appends the end of each. REQUIRES: count > 0.
  void AppendAnchors(size_t count, std::vector<TableAnchor>* anchors) const;

  // Reads every block, verifies checksums, and checks every entry.
  Status VerifyChecksum() const;

  const PropertiesBlock& properties() const { return core_.properties; }
  // Returns the parts that a TableIterator reads. They live as long as the
  // table.
  const TableCore& core() const { return core_; }
  // Returns the range deletions as they are in the file, or null if there are
  // none. They may exceed the key range that the MANIFEST gives for the table.
  // Lookups apply them; iterators do not.
  const RangeTombstoneSet* tombstones() const { return core_.tombstones.get(); }
  // Returns the bytes of memory for index, filter and other parts, without
  // cached blocks.
  size_t ApproximateMemoryUsage() const { return core_.accounted_bytes(); }

 private:
  friend class TablePart;
  friend class TableParts;

  Table() = default;
  // General lookup from probe->block_index on. Reads blocks that are not in
  // memory, and works without fingerprints. Sets done.
  void GetFromBlocks(TableProbe* probe) const;
  // The two halves of ProbeIndex.
  void ProbeFilter(TableProbe* probe) const;
  void FindBlock(TableProbe* probe, bool finish) const;
  // Continues a probe in the table's parts, which are not in its own index.
  // With `finish` the probe is done then. Otherwise it may go on with
  // probe->table, which is a part, and wait for a block, or wait for the first
  // part.
  void ProbeParts(TableProbe* probe, bool finish) const;
  // Continues it in part i, which is null if it was not found in memory.
  void ProbeFromPart(size_t i, const Table* part, bool finish,
                     TableProbe* probe) const;
  void ProbePart(TableProbe* probe) const;
  // The step of ReadBlocks for parts. Moves the probes that wait for a block to
  // the front of the array, and returns their number.
  static size_t ReadParts(TableProbe** probes, size_t count, Env* env);
  void NotInBlock(TableProbe* probe) const;
  // Searches a block that was waited for, or its body if `block` is empty.
  void LookIn(BlockRef* block, const Slice& body, TableProbe* probe) const;
  // Search one block, in memory or in its file's format. Return true if the
  // lookup ends here, at an entry at or after the key or at an error.
  bool FindInBlock(BlockRef* block, TableProbe* probe) const;
  bool FindInBody(const Slice& body, size_t i, TableProbe* probe) const;
  // Sets the result from the newest entry of the key. Returns true if it has a
  // value.
  bool Conclude(uint64_t trailer, TableProbe* probe) const;
  // Adds one to a packed counter of the lookup's ReadCounts.
  static void Count(const TableProbe& probe, uint64_t unit);

  // The same for a table that has parts.
  uint64_t ApproximateOffsetInParts(const Slice& internal_key) const;
  void AppendPartAnchors(size_t count, std::vector<TableAnchor>* anchors) const;

  TableCore core_;
  std::atomic<bool> is_loaded_{false};
  Mutex load_mutex_;
};

}  // namespace varve
