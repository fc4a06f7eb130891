// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// For measurements of Varve itself. Each optimization that Varve demonstrates
// can be replaced by its baseline. The zero value of every enum is the
// production form. db_bench --ablate=NAME=VALUE,... sets them. The modes that
// the library itself acts on are in util/base/experiment.h.

#include <cstdint>
#include <memory>
#include <string>

#include "util/base/experiment.h"
#include "varve/cache.h"
#include "varve/options.h"
#include "varve/slice.h"
#include "varve/statistics.h"
#include "varve/status.h"

namespace varve {

// superversion=mutex: a read takes the DB mutex to reference what it reads
// from. Production: each thread keeps a reference, and takes no lock.
enum class SuperVersionMode : uint8_t { kThreadLocal = 0, kMutex };

// block_index=binary_search: comparator calls over the decoded index and over
// the entries of blocks. Production: prefixes and fingerprints.
enum class BlockIndexMode : uint8_t { kPrefixes = 0, kBinarySearch };

// block_cache=hash: a sharded hash table with handles and an LRU list.
// Production: slots in the index that hold the block's address, and CLOCK.
enum class BlockCacheMode : uint8_t { kSwizzled = 0, kHash };

// memtable=skiplist: a skiplist orders the memtable. Production: a B-link tree.
enum class MemTableMode : uint8_t { kBlinkTree = 0, kSkipList };

// table_open=uncached: a table is opened with no cached knowledge. Its path is
// resolved to the device, whose block size is read from sysfs. Flags are set
// one by one, the size is queried, and each part of the metadata has its own
// read. A table closed because of max_open_files loses its metadata.
// Production: one open and one read; one open if the file was closed since.
enum class TableOpenMode : uint8_t { kOneRead = 0, kUncached };

// statistics=global: one atomic counter per event, for all threads. =thread: a
// set of counters per thread; a query reads all sets. Production: a set per
// processor. A Statistics given in Options has its own.
enum class StatisticsMode : uint8_t { kPerCpu = 0, kGlobal, kThread };

// snapshots=mutex: snapshots and read transactions are in a list under the DB
// mutex. Production: they are in nodes of the thread that takes them, without a
// lock.
enum class SnapshotMode : uint8_t { kPerThread = 0, kMutex };

// arena=fresh: each iterator, and each MultiGet's scratch memory, is allocated
// on the heap. Production: the thread reuses the memory of its last ones, and
// the trees of iterators.
enum class ArenaMode : uint8_t { kKept = 0, kFresh };

// memory_accounting=atomic: one atomic sum per kind of memory, for all threads.
// Production: plain sums per thread, and atomic sums for memory that other
// threads free. Process-wide: once atomic, it stays so.
enum class MemoryAccountingMode : uint8_t { kOwner = 0, kAtomic };

// key_case=unicode: each key of a case-insensitive database is folded by the
// Unicode library. Production: SIMD folds ASCII. The library folds only keys
// with other characters.
enum class KeyCaseMode : uint8_t { kAsciiFirst = 0, kUnicode };

// catalog=folding: a catalog folds each requested name, and looks it up under
// its mutex. Production: a lock-free cache finds names that were requested
// before.
enum class CatalogMode : uint8_t { kNameCache = 0, kFolding };

// waste=ignored: a flush keeps all deletions. Tables of level 0 are compacted
// only for deletions that hide entries of deeper levels, and dead entries in
// tables and walks over them do not matter. always: each walk over a deletion
// is remembered and leads to a flush or compaction, for tests. Production: a
// flush drops deletions that hide nothing. Tables with many dead entries, and
// those in which iterators walk over many, are compacted.
enum class WasteMode : uint8_t { kMended = 0, kIgnored, kAlways };

struct AblationOptions {
  SuperVersionMode superversion = {};
  BlockIndexMode block_index = {};
  BlockCacheMode block_cache = {};
  MemTableMode memtable = {};
  TableOpenMode table_open = {};
  StatisticsMode statistics = {};
  TraceClockMode trace_clock = {};
  TraceCollectMode trace_collect = {};
  SnapshotMode snapshots = {};
  ArenaMode arena = {};
  MemoryAccountingMode memory_accounting = {};
  KeyCaseMode key_case = {};
  CatalogMode catalog = {};
  WasteMode waste = {};

  // Parses text such as "superversion=mutex,block_cache=hash". Empty text means
  // all production. Returns InvalidArgument with an unknown name; *this is then
  // unchanged.
  Status Parse(const Slice& text);
  // Returns the value of one field, such as "thread_local" of "superversion".
  // Returns null if there is no such field.
  const char* ValueName(const Slice& field) const;
  // Returns the deviations from production, in the form that Parse takes.
  std::string ToString() const;
};

// Creates an experiment for Options::experiment, which may be shared. An
// Options::block_cache and Options::statistics that are not null are created by
// the functions below.
std::shared_ptr<const Experiment> NewExperiment(const AblationOptions& options);

// Create a block cache and statistics of a kind.
std::shared_ptr<Cache> NewBlockCache(BlockCacheMode mode,
                                     const CacheOptions& options);
std::shared_ptr<Statistics> CreateDBStatistics(
    StatisticsMode mode, const StatisticsOptions& options = {});

}  // namespace varve
