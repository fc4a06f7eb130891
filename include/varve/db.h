// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/iterator.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/write_batch.h"

namespace varve {

// A moment of a database, to read it as it was then.
// Made by DB::GetSnapshot, released by DB::ReleaseSnapshot. Any thread may
// use and release it.
class VARVE_EXPORT Snapshot {
 public:
  // Updates up to and including this number are seen.
  virtual uint64_t GetSequenceNumber() const = 0;

 protected:
  virtual ~Snapshot() = default;
};

// What a ReadTransaction holds on to: made by DB::BeginReadTransaction, and let
// go of by its own End.
class VARVE_EXPORT PinnedSnapshot : public Snapshot {
 public:
  // To be called exactly once, by any thread, when no read at the snapshot is
  // under way; also when the DB is gone.
  virtual void End() = 0;
  // Whether the DB that made it is gone: nothing can be read then.
  virtual bool IsOrphaned() const = 0;
};

// Keys from `start` up to, not including, `limit`.
struct Range {
  Slice start;
  Slice limit;
};

// A persistent ordered map from keys to values.
//
// Thread-safety: thread-safe; no outside lock is needed for anything but
// destruction.
// Lifetime: release snapshots, end read transactions and destroy iterators and
// pinned values first.
// A class of your own that does something at each call, and leaves the rest to
// another DB: varve/stackable_db.h.
class VARVE_EXPORT DB {
 public:
  // Opens the database in the directory `path`. On success *db owns it.
  //
  // InvalidArgument: an option out of its bounds; a missing database without
  // create_if_missing; another comparator than the database's.
  // Busy: another process, or this one, has it open.
  // NotSupported: it holds a feature that Varve does not have; the message
  // names it. Nothing was changed.
  // Corruption: CURRENT, MANIFEST, a table or a log is damaged; the message
  // names the file. Nothing was changed.
  static Status Open(const Options& options, const std::string& path,
                     std::unique_ptr<DB>* db);

  // Opens without changing a file or taking the lock; writes are NotSupported.
  // Another process may have the database open and write to it. The DB then
  // shows one moment, logs included, and never changes: all writes that had
  // returned before the call, perhaps some that came later, and none without
  // those before it. Writes that are not with the operating system yet
  // (Options::manual_wal_flush, WriteOptions::disable_wal) are not seen.
  //
  // All tables are opened at once, so that they can be read after the writer
  // has removed them. That cannot be promised where fewer of them stay open:
  // max_open_files, a limit on descriptors, or cache_index_and_filter_blocks.
  // There a read may be an IOError that says to open the database again.
  //
  // Busy: the writer changed the database faster than it could be read, many
  // times over.
  static Status OpenForReadOnly(const Options& options, const std::string& path,
                                std::unique_ptr<DB>* db);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  // Closes, losing the status; call Close to see it.
  virtual ~DB() = default;

  // Waits for a flush that has begun, stops compactions, writes out what was
  // written with disable_wal, syncs the log and releases the lock. Calls of
  // other threads must have returned. Busy if snapshots, read transactions or
  // iterators are still out: nothing is closed then. What made the database
  // read-only is returned if it keeps some of what was written from being
  // safe. After anything but Busy, Close returns the same status again, and all
  // other calls are errors: ShutdownInProgress, or false. A read transaction
  // must not be begun.
  virtual Status Close() = 0;

  // Sets, removes, or does a batch of both at once. All threads see it when
  // the call returns; see WriteOptions::sync for when it is safe.
  // InvalidArgument: key and value take more than 3 GiB, see WriteBatch::Put.
  // IOError and others: a background failure has made the DB read-only; the
  // status carries the cause. While the device is full, batches that only
  // delete are still taken as long as the log has space for them.
  virtual Status Put(const WriteOptions& options, const Slice& key,
                     const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  // As WriteBatch has them.
  virtual Status SingleDelete(const WriteOptions& options,
                              const Slice& key) = 0;
  virtual Status DeleteRange(const WriteOptions& options, const Slice& begin,
                             const Slice& end) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* batch) = 0;

  // Sets *value to the value of the key. NotFound if there is none; *value is
  // then empty. The PinnableSlice form may point into the block cache instead
  // of copying.
  virtual Status Get(const ReadOptions& options, const Slice& key,
                     PinnableSlice* value) = 0;
  virtual Status Get(const ReadOptions& options, const Slice& key,
                     std::string* value) = 0;

  // `count` Gets at once, all of the same moment; statuses[i] and values[i]
  // belong to keys[i]. Keys may repeat and be in any order.
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        const Slice* keys, PinnableSlice* values,
                        Status* statuses) = 0;
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        const Slice* keys, std::string* values,
                        Status* statuses) = 0;
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);

  // Never null; an error is in its status().
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  // Never null. Neither takes a lock or waits, in most cases. Release each
  // exactly once; any thread may, when no read at the snapshot is under way.
  // A snapshot keeps what it sees from being dropped by compactions; see also
  // varve/read_transaction.h.
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // For ReadTransaction (varve/read_transaction.h), which calls End on what is
  // returned, and gives it to reads of this DB as ReadOptions::snapshot. Null
  // is a read transaction that has ended.
  virtual PinnedSnapshot* BeginReadTransaction() = 0;

  // What the DB says of itself; false if the name is unknown. Names:
  //   varve.num-files-at-level<N>     tables of that level
  //   varve.levelstats                a table of levels, files and bytes
  //   varve.cfstats                   levels, compactions, space amplification
  //   varve.dbstats                   write amplification, stalls
  //   varve.stats                     both, and the counters
  //   varve.compression-ratio-at-level<N>   bytes of keys and values for each
  //                                   byte of the level's tables; -1.000000
  //                                   without tables
  //   varve.aggregated-table-properties,
  //   varve.aggregated-table-properties-at-level<N>   sums over tables
  //   varve.sstables                  every table with its key range
  //   varve.num-immutable-mem-table   write buffers waiting for flush
  //   varve.num-entries-active-mem-table, varve.num-entries-imm-mem-tables
  //                                   updates in the write buffer being filled,
  //                                   and in those waiting; without deletions
  //                                   of ranges
  //   varve.num-deletes-active-mem-table, varve.num-deletes-imm-mem-tables
  //                                   those of them that are deletions
  //   varve.mem-table-flush-pending   1 or 0
  //   varve.compaction-pending        1 or 0
  //   varve.num-running-flushes, varve.num-running-compactions
  //   varve.background-errors         failed background jobs so far
  //   varve.is-read-only              1 since one failed, until Resume; or if
  //                                   it was opened for reading only
  //   varve.cur-size-active-mem-table, varve.cur-size-all-mem-tables   bytes
  //   varve.size-all-mem-tables       bytes, with those that were flushed and
  //                                   are still read by iterators
  //   varve.num-immutable-mem-table-flushed   the number of the latter
  //   varve.approximate-memory-usage  memtables, tables' metadata and cache
  //   varve.estimate-table-readers-mem   bytes of tables' metadata
  //   varve.estimate-num-keys
  //   varve.estimate-pending-compaction-bytes
  //   varve.base-level                that which level 0 is compacted into
  //   varve.num-snapshots, varve.oldest-snapshot-sequence   read transactions
  //                                   are snapshots, too
  //   varve.oldest-snapshot-time      seconds since 1970; 0 without snapshots
  //   varve.oldest-snapshot           its number, age, thread, and the bytes
  //                                   that it keeps: docs/read_transactions.md
  //   varve.num-live-versions
  //   varve.current-super-version-number   rises when the tables or write
  //                                   buffers change
  //   varve.estimate-oldest-key-time  seconds since 1970: when the oldest data
  //                                   was written to a table; 0 without tables
  //   varve.total-sst-files-size, varve.live-sst-files-size   bytes
  //   varve.estimate-live-data-size   bytes without tables that a deeper one
  //                                   overlaps
  //   varve.min-log-number-to-keep    of the oldest log that is still needed
  //   varve.is-file-deletions-enabled  0 while a checkpoint is being made
  //   varve.block-cache-capacity, varve.block-cache-usage,
  //   varve.block-cache-pinned-usage  bytes
  //   varve.is-write-stopped          1 while writers wait for background work
  //   varve.is-write-stalled          1 while they wait or are slowed down
  //   varve.actual-delayed-write-rate
  //   varve.io-path                   how tables are read
  //   varve.statistics, varve.options-statistics   events and distributions
  //   varve.prometheus                the same, for Prometheus
  //   varve.memory                    bytes of the whole process by kind: that
  //                                   live, were allocated, freed, by whom
  //   varve.memory-by-thread          the same by thread: its name and id
  //   varve.statistics-path           how they are counted; "none" if not
  //   varve.statistics-memory, varve.statistics-memory-reserved   bytes in
  //                                   use, and of address space
  //   varve.trace-clock               what times traces, and why
  // The prefixes "rocksdb." and "leveldb." are understood as well.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  // The same for those that are one number.
  virtual bool GetIntProperty(const Slice& property, uint64_t* value) = 0;

  // Bytes in table files for each range, about. Compressed sizes; memtables
  // do not count.
  virtual Status GetApproximateSizes(const Range* ranges, size_t count,
                                     uint64_t* sizes) = 0;

  // Writes the write buffer to a table.
  virtual Status Flush(const FlushOptions& options) = 0;

  // Makes the log safe up to now, as a write with sync does.
  virtual Status SyncWAL() = 0;

  // Hands the log to the operating system up to now, which only makes a
  // difference under Options::manual_wal_flush; then SyncWAL if `sync`.
  virtual Status FlushWAL(bool sync) = 0;

  // Makes a DB writable again that a background failure has made read-only,
  // once the cause is gone: waits for compactions that run, begins a new log
  // and writes all that is in memory to tables, so that nothing depends on
  // files of which a write or sync failed. OK too if there is nothing to resume
  // from. After an error the DB stays read-only, and Resume may be called
  // again. When the device or the quota was full, the DB tries by itself every
  // few seconds, and at each call of Delete, DeleteRange, Flush and
  // CompactRange. Compactions that paused for want of space begin again.
  virtual Status Resume() = 0;

  // Compacts all keys in [*begin, *end]; null is before the first and behind
  // the last. Waits until it is done. Of what is in memory all is written to
  // tables before if some is of these keys, else nothing.
  // InvalidArgument: see CompactRangeOptions. ShutdownInProgress: the database
  // is being closed, or see CancelAllBackgroundWork. IsNoSpace: the device is
  // full; nothing is lost, and the call may be repeated. It can free space on a
  // device that is full: tables whose keys are all covered by newer range
  // deletions, with no snapshot between, are removed without writing a table.
  virtual Status CompactRange(const CompactRangeOptions& options,
                              const Slice* begin, const Slice* end) = 0;

  // Changes options of the open database until it is closed; values are
  // decimal numbers (integers may end in K, M, G or T), or true and false:
  //   write_buffer_size, max_write_buffer_number,
  //   level0_file_num_compaction_trigger, level0_slowdown_writes_trigger,
  //   level0_stop_writes_trigger, soft_pending_compaction_bytes_limit,
  //   hard_pending_compaction_bytes_limit, target_file_size_base,
  //   max_compaction_bytes, max_bytes_for_level_base,
  //   max_bytes_for_level_multiplier, disable_auto_compactions
  // InvalidArgument, and nothing is changed, if a name is none of these or a
  // value is out of the option's bounds. NotSupported: read-only database.
  virtual Status SetOptions(
      const std::map<std::string, std::string>& changes) = 0;

  // Starts no more flushes and compactions, and stops compactions that run;
  // what they have written is removed. With `wait`, returns when none is left.
  // The database can be read and, until its write buffers are full, written;
  // then writes, and calls that need background work, are ShutdownInProgress.
  // Close writes out what it otherwise would.
  virtual void CancelAllBackgroundWork(bool wait) = 0;

  // See varve/checkpoint.h.
  virtual Status CreateCheckpoint(const std::string& directory) = 0;

  // Waits until no flush or compaction is due or running. ShutdownInProgress,
  // once none runs: some are due, but see CancelAllBackgroundWork.
  virtual Status WaitForCompact() = 0;

  // Reads every block of every table and compares checksums. Corruption
  // names the first bad file and offset.
  virtual Status VerifyChecksum() = 0;

  // The number of the newest update.
  virtual uint64_t GetLatestSequenceNumber() const = 0;
};

// Removes the files of a database and, if nothing else is in it, its
// directory. Files that are no database's stay. OK if there is none. Busy if
// it is open, but for reading only: whoever has it so can read no further.
VARVE_EXPORT Status DestroyDB(const std::string& path, const Options& options);

// Rebuilds a database of which CURRENT, MANIFEST, logs or tables are gone or
// damaged. Every entry that can be read is kept: of a table all blocks that are
// whole, of a log also what stands behind damage; what a device does not give
// is damaged, too. The files that were there go to the subdirectory lost/, and
// files that are no database's stay. What had been deleted or written anew may
// come back as it was before, if that is among what cannot be read, or if no
// MANIFEST is.
// Comparator and key_case must be those that it was written with.
// Errors: Busy if it is open; InvalidArgument if there is none, or it has
// another comparator (NotSupported, if no MANIFEST tells), or is
// case-insensitive and key_case is not, or key_case is and it has keys that
// would be folded to others; NotSupported for what Varve cannot read though it
// is whole; else what a file could not be opened or written for. Then nothing
// is lost, and another repair may follow.
VARVE_EXPORT Status RepairDB(const std::string& path, const Options& options);

}  // namespace varve
