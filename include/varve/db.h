// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "varve/column_family.h"
#include "varve/export.h"
#include "varve/external_files.h"
#include "varve/iterator.h"
#include "varve/metadata.h"
#include "varve/options.h"
#include "varve/pinnable_slice.h"
#include "varve/slice.h"
#include "varve/status.h"
#include "varve/table_properties.h"
#include "varve/transaction_log.h"
#include "varve/write_batch.h"

namespace varve {

// The state of a database at one point in time. Reads at a snapshot do not see
// later updates. Created by DB::GetSnapshot and released by
// DB::ReleaseSnapshot.
//
// Thread-safety: any thread can use and release it.
class VARVE_EXPORT Snapshot {
 public:
  // Reads at this snapshot see the updates up to and including this sequence
  // number.
  virtual uint64_t GetSequenceNumber() const = 0;

 protected:
  virtual ~Snapshot() = default;
};

// The snapshot of a ReadTransaction. Created by DB::BeginReadTransaction and
// released by its own method End.
class VARVE_EXPORT PinnedSnapshot : public Snapshot {
 public:
  // Releases the snapshot. Any thread can call it, exactly once, when no read
  // at the snapshot is running. It must also be called if the DB has been
  // destroyed.
  virtual void End() = 0;
  // Returns true if the DB has been destroyed. Nothing can be read then.
  virtual bool IsOrphaned() const = 0;
};

// The keys from `start`, inclusive, to `limit`, exclusive.
struct Range {
  Slice start;
  Slice limit;
};

// A range of keys; a null bound is the first or the last key.
struct RangePtr {
  const Slice* start = nullptr;
  const Slice* limit = nullptr;
};

// Options of DB::GetMergeOperands.
struct GetMergeOperandsOptions {
  // Room in the caller's array. More operands are an error, Incomplete.
  int expected_max_number_of_operands = 0;
};

// Options of DB::CompactFiles.
struct CompactionOptions {
  // Compression of the output. Not set: as the level's.
  std::optional<CompressionType> compression;
  // Cut the output at this many bytes. Level 0 ignores it.
  uint64_t output_file_size_limit = UINT64_MAX;
};

// A persistent ordered map from keys to values.
//
// Thread-safety: thread-safe. Only destruction needs external synchronization.
// Lifetime: before a DB is destroyed, release its snapshots, end its read
// transactions, and destroy its iterators and pinned values.
// To wrap a DB and override some of its calls, derive from StackableDB
// (varve/stackable_db.h).
class VARVE_EXPORT DB {
 public:
  // Opens the database in the directory `path`. Stores the DB in *db.
  //
  // Errors:
  // - InvalidArgument: an option is out of bounds, the database does not exist
  //   and create_if_missing is false, or the comparator is not the database's.
  // - Busy: this process or another one has the database open.
  // - NotSupported: the database uses a feature that Varve does not have. The
  //   message names the feature. Nothing was changed.
  // - Corruption: CURRENT, the MANIFEST, a table or a log is damaged. The
  //   message names the file. Nothing was changed.
  static Status Open(const Options& options, const std::string& path,
                     std::unique_ptr<DB>* db);

  // Opens the database for reading only. Changes no file and does not take the
  // lock. Writes return NotSupported.
  //
  // Another process can have the database open and write to it. The DB then
  // shows a consistent state of the tables and logs that does not change later.
  // It includes all writes that returned before the call, and possibly newer
  // ones, without gaps. It does not include writes that the other process has
  // not yet passed to the operating system (see Options::manual_wal_flush and
  // WriteOptions::disable_wal).
  //
  // All tables are opened immediately, so that they stay readable after the
  // writer has removed them. If max_open_files, the descriptor limit or
  // cache_index_and_filter_blocks prevents this, a read of a removed table
  // returns an IOError that says to open the database again.
  //
  // Errors: as Open. Busy means that the writer kept changing the database
  // faster than it could be read.
  static Status OpenForReadOnly(const Options& options, const std::string& path,
                                std::unique_ptr<DB>* db);

  // Open a database with several column families, and store their handles in
  // *handles, in the order of `families`. The families must include the default
  // one. Open must be given all families that the database has; OpenForReadOnly
  // can be given some of them.
  //
  // Errors: as above, and
  // - InvalidArgument: a family of the database is missing in `families` (the
  //   message names it), a name is given twice, the default family is not
  //   given, or the database does not have a family that is given and
  //   create_missing_column_families is false.
  static Status Open(const DBOptions& options, const std::string& path,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<DB>* db);
  static Status OpenForReadOnly(
      const DBOptions& options, const std::string& path,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db);

  // Opens the database as a follower of the process that writes it, the
  // primary. Takes no lock and changes no file of the database. The DB shows
  // the moment of the open until TryCatchUpWithPrimary is called. Writes return
  // NotSupported, until Promote has made it an ordinary database.
  //
  // The follower's info log goes to LOG in `secondary_path`, which is created
  // if its parent exists; nowhere if `secondary_path` is empty. Some of the
  // families can be given, with the default one. All tables are opened, as by
  // OpenForReadOnly.
  //
  // Errors: as OpenForReadOnly, and NotSupported for a database that LevelDB
  // writes.
  static Status OpenAsSecondary(const Options& options, const std::string& path,
                                const std::string& secondary_path,
                                std::unique_ptr<DB>* db);
  static Status OpenAsSecondary(
      const DBOptions& options, const std::string& path,
      const std::string& secondary_path,
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db);

  // Stores the names of the database's column families in *names, the default
  // one first. The database can be open. Errors: as OpenForReadOnly.
  static Status ListColumnFamilies(const DBOptions& options,
                                   const std::string& path,
                                   std::vector<std::string>* names);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  // Closes the DB and discards the status. Call Close to obtain it.
  virtual ~DB() = default;

  // Waits for a running flush, stops compactions, flushes updates that were
  // written with disable_wal, syncs the log and releases the lock. REQUIRES: no
  // other thread is in a call on this DB.
  //
  // Returns Busy, and closes nothing, while snapshots, read transactions or
  // iterators exist. If a background failure keeps updates from being durable,
  // returns that error. After any result except Busy, the DB is closed. Close
  // then returns the same status again, all other calls return
  // ShutdownInProgress or false, and no read transaction can be started.
  virtual Status Close() = 0;

  // ---- For a DB opened by OpenAsSecondary ----

  // Makes the DB show a newer moment of the primary. After OK, it shows at
  // least all updates that the primary had answered before the call, synced or
  // not, and one moment over all column families. It does not include updates
  // that the primary has not yet passed to the operating system (see
  // Options::manual_wal_flush and WriteOptions::disable_wal). Iterators and
  // snapshots stay at their moments. A family that the primary has dropped
  // stays as it is; one that it has created is not followed.
  //
  // Reads what is new in the MANIFEST and in the logs, and opens new tables.
  // Other threads can read at the same time. Calls wait for each other. After
  // Promote, does nothing.
  //
  // Errors, after which the DB shows the same moment as before:
  // - Busy: the primary kept changing the database faster than it could be
  //   read.
  // - Corruption: the MANIFEST or a log is damaged, or a file is missing.
  // - InvalidArgument: another database is in the directory.
  // - NotSupported: the DB was not opened as a secondary, or the database uses
  //   a feature that Varve does not have.
  virtual Status TryCatchUpWithPrimary();
  // Takes the primary's place after its process has ended: takes the lock,
  // reads the rest of the logs, and begins a new log and MANIFEST. From then on
  // the DB is an ordinary database that is open for writing. It has all updates
  // that the primary had answered and passed to the operating system. Handles,
  // iterators and snapshots stay valid. Other threads can read at the same
  // time.
  //
  // Errors, after which the DB still follows:
  // - Busy: the primary, or another process, has the lock.
  // - InvalidArgument: the database has families that were not opened; the
  //   message names them.
  // - NotSupported: the DB was not opened as a secondary, or is promoted
  //   already.
  // - Others, as of TryCatchUpWithPrimary and Open.
  virtual Status Promote();

  // Put sets the value of a key, Delete removes a key, and Write applies a
  // batch of updates atomically. When the call returns, all threads see the
  // update. WriteOptions::sync controls when it is durable.
  //
  // Errors:
  // - InvalidArgument: key and value exceed 3 GiB; see WriteBatch::Put. A batch
  //   is too large; see WriteBatch.
  // - IOError and others: a background failure has made the DB read-only. The
  //   status contains the cause. On a full device, batches that only delete
  //   still succeed while the log has space for them.
  virtual Status Put(const WriteOptions& options, const Slice& key,
                     const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  // See WriteBatch::SingleDelete, WriteBatch::Merge and
  // WriteBatch::DeleteRange.
  virtual Status SingleDelete(const WriteOptions& options,
                              const Slice& key) = 0;
  virtual Status Merge(const WriteOptions& options, const Slice& key,
                       const Slice& operand) = 0;
  virtual Status DeleteRange(const WriteOptions& options, const Slice& begin,
                             const Slice& end) = 0;
  virtual Status Write(const WriteOptions& options, WriteBatch* batch) = 0;

  // Stores the value of the key in *value. If the key does not exist, returns
  // NotFound and makes *value empty. A PinnableSlice can refer to a block in
  // the cache, which saves a copy.
  virtual Status Get(const ReadOptions& options, const Slice& key,
                     PinnableSlice* value) = 0;
  virtual Status Get(const ReadOptions& options, const Slice& key,
                     std::string* value) = 0;

  // Reads `count` keys from the same state of the database. values[i] and
  // statuses[i] receive the result for keys[i], as Get would return it. Keys
  // can be in any order and can repeat.
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        const Slice* keys, PinnableSlice* values,
                        Status* statuses) = 0;
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        const Slice* keys, std::string* values,
                        Status* statuses) = 0;
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);

  // Returns an iterator over the database. It sees no later updates. Never
  // null. Errors are reported by the iterator's status().
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  // Creates and releases snapshots. Usually lock-free. GetSnapshot never
  // returns null. Each snapshot must be released exactly once, by any thread,
  // when no read at it is running. Compactions keep the versions of keys that
  // a snapshot can see. See also varve/read_transaction.h.
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // Used by ReadTransaction (varve/read_transaction.h), which passes the result
  // to reads of this DB as ReadOptions::snapshot and calls End on it. If it is
  // null, the read transaction has already ended.
  virtual PinnedSnapshot* BeginReadTransaction() = 0;

  // ---- Column families ----

  // Creates families, and stores their handles in *handle, or appends them to
  // *handles in the given order. CreateColumnFamilies stops at the first error;
  // the handles of families created before it are in *handles. It costs about
  // as many syncs as CreateColumnFamily does, for any number of families.
  // Errors: InvalidArgument if there is a family of that name, the name is
  // empty, or an option is out of bounds; NotSupported if the DB belongs to a
  // Catalog; as Put otherwise. Writes a new OPTIONS file, as a drop does; see
  // docs/option_files.md.
  virtual Status CreateColumnFamily(const ColumnFamilyOptions& options,
                                    const std::string& name,
                                    ColumnFamilyHandle** handle) = 0;
  Status CreateColumnFamilies(const ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<ColumnFamilyHandle*>* handles);
  virtual Status CreateColumnFamilies(
      const std::vector<ColumnFamilyDescriptor>& families,
      std::vector<ColumnFamilyHandle*>* handles);

  // Removes a family with all its keys. The drop is durable when the call
  // returns. Updates of the family return InvalidArgument from then on. Errors:
  // InvalidArgument for the default family and for one that was dropped before.
  // DropColumnFamilies drops in the given order and stops at the first error.
  // It costs about as many syncs as DropColumnFamily does.
  virtual Status DropColumnFamily(ColumnFamilyHandle* family) = 0;
  virtual Status DropColumnFamilies(
      const std::vector<ColumnFamilyHandle*>& families);

  // Releases a handle, as `delete family` does; null is allowed, and so is the
  // handle of a DB that was destroyed. Returns InvalidArgument, and does
  // nothing, for DefaultColumnFamily() and for a handle of another DB.
  Status DestroyColumnFamilyHandle(ColumnFamilyHandle* family);

  // Returns a handle of the default family, which belongs to the DB. Do not
  // release it. It is valid until the DB is destroyed.
  virtual ColumnFamilyHandle* DefaultColumnFamily() const = 0;

  // As the calls without `family`, for a column family. Null is the default
  // one. For a handle of another DB, or of a DB that was destroyed, all calls
  // return InvalidArgument, or false, and change nothing. MultiGet returns it
  // for the keys of that handle.
  virtual Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& key, const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                        const Slice& key) = 0;
  virtual Status SingleDelete(const WriteOptions& options,
                              ColumnFamilyHandle* family, const Slice& key) = 0;
  virtual Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
                       const Slice& key, const Slice& operand) = 0;
  virtual Status DeleteRange(const WriteOptions& options,
                             ColumnFamilyHandle* family, const Slice& begin,
                             const Slice& end) = 0;
  virtual Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
                     const Slice& key, PinnableSlice* value) = 0;
  virtual Status Get(const ReadOptions& options, ColumnFamilyHandle* family,
                     const Slice& key, std::string* value) = 0;
  virtual void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                        size_t count, const Slice* keys, PinnableSlice* values,
                        Status* statuses) = 0;
  virtual void MultiGet(const ReadOptions& options, ColumnFamilyHandle* family,
                        size_t count, const Slice* keys, std::string* values,
                        Status* statuses) = 0;
  // Reads keys[i] from families[i]. All are read at one moment.
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        ColumnFamilyHandle* const* families, const Slice* keys,
                        PinnableSlice* values, Status* statuses) = 0;
  virtual void MultiGet(const ReadOptions& options, size_t count,
                        ColumnFamilyHandle* const* families, const Slice* keys,
                        std::string* values, Status* statuses) = 0;
  // As above. If `families` and `keys` differ in size, each status is
  // InvalidArgument.
  std::vector<Status> MultiGet(const ReadOptions& options,
                               const std::vector<ColumnFamilyHandle*>& families,
                               const std::vector<Slice>& keys,
                               std::vector<std::string>* values);
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options,
                                                ColumnFamilyHandle* family) = 0;
  // Stores an iterator over each family in *iterators, in the order of
  // `families`. All see the same moment. After an error *iterators is empty;
  // the error is that of the first iterator that could not be created, or of a
  // closed DB.
  virtual Status NewIterators(
      const ReadOptions& options,
      const std::vector<ColumnFamilyHandle*>& families,
      std::vector<std::unique_ptr<Iterator>>* iterators) = 0;
  virtual bool GetProperty(ColumnFamilyHandle* family, const Slice& property,
                           std::string* value) = 0;
  virtual bool GetIntProperty(ColumnFamilyHandle* family, const Slice& property,
                              uint64_t* value) = 0;
  virtual Status GetApproximateSizes(ColumnFamilyHandle* family,
                                     const Range* ranges, size_t count,
                                     uint64_t* sizes) = 0;
  // Flush without a family flushes the default one; the second form flushes
  // several, as of one moment of the log.
  virtual Status Flush(const FlushOptions& options,
                       ColumnFamilyHandle* family) = 0;
  virtual Status Flush(const FlushOptions& options,
                       const std::vector<ColumnFamilyHandle*>& families) = 0;
  virtual Status CompactRange(const CompactRangeOptions& options,
                              ColumnFamilyHandle* family, const Slice* begin,
                              const Slice* end) = 0;
  // Changes options of one family. SetOptions without a family changes the
  // default family's options.
  virtual Status SetOptions(
      ColumnFamilyHandle* family,
      const std::map<std::string, std::string>& changes) = 0;

  // ---- Properties ----

  // Stores the value of a property of the DB in *value. Returns false if there
  // is no such property. The properties are:
  //   varve.num-files-at-level<N>     number of tables on level N
  //   varve.levelstats                number of tables and bytes by level
  //   varve.cfstats                   levels, compactions, space amplification
  //   varve.dbstats                   write amplification, write stalls
  //   varve.stats                     cfstats, dbstats and the statistics
  //   varve.compression-ratio-at-level<N>   bytes of keys and values per byte
  //                                   of the level's tables; -1.000000 if the
  //                                   level has no tables
  //   varve.aggregated-table-properties,
  //   varve.aggregated-table-properties-at-level<N>   sums over tables
  //   varve.sstables                  all tables with their key ranges
  //   varve.num-immutable-mem-table   memtables that wait for a flush
  //   varve.num-entries-active-mem-table, varve.num-entries-imm-mem-tables
  //                                   entries in the active and in the
  //                                   immutable memtables, without range
  //                                   deletions
  //   varve.num-deletes-active-mem-table, varve.num-deletes-imm-mem-tables
  //                                   deletions among these entries
  //   varve.mem-table-flush-pending   1 if a flush is pending, else 0
  //   varve.compaction-pending        1 if a compaction is pending, else 0
  //   varve.num-running-flushes, varve.num-running-compactions
  //   varve.background-errors         number of background jobs that failed
  //   varve.is-read-only              1 if the DB was opened for reading only,
  //                                   or from a background failure to Resume
  //   varve.cur-size-active-mem-table, varve.cur-size-all-mem-tables   bytes
  //   varve.size-all-mem-tables       bytes, including flushed memtables that
  //                                   iterators still use
  //   varve.num-immutable-mem-table-flushed   number of such memtables
  //   varve.approximate-memory-usage  bytes of memtables, table metadata and
  //                                   block cache
  //   varve.estimate-table-readers-mem   bytes of table metadata
  //   varve.estimate-num-keys
  //   varve.estimate-pending-compaction-bytes
  //   varve.base-level                level that level 0 is compacted into
  //   varve.num-snapshots, varve.oldest-snapshot-sequence   snapshots include
  //                                   read transactions
  //   varve.oldest-snapshot-time      seconds since 1970; 0 without snapshots
  //   varve.oldest-snapshot           its sequence number, age, thread, and the
  //                                   bytes that it retains; docs/snapshots.md
  //   varve.dead-ranges               where iterators walk over many deletions,
  //                                   and what is done about it; docs/seeks.md
  //   varve.num-live-versions
  //   varve.current-super-version-number   increases when the set of tables or
  //                                   memtables changes
  //   varve.estimate-oldest-key-time  seconds since 1970 at which the oldest
  //                                   data was written to a table; 0 without
  //                                   tables
  //   varve.total-sst-files-size, varve.live-sst-files-size   bytes
  //   varve.estimate-live-data-size   bytes of tables that no table on a deeper
  //                                   level overlaps
  //   varve.min-log-number-to-keep    number of the oldest log still needed
  //   varve.oldest-log                its number, the family that needs it, its
  //                                   age in seconds, the bytes of the logs
  //                                   before the newest, and the bound of all
  //   varve.column-families           ids, names, tables, bytes and memtables
  //   varve.is-file-deletions-enabled  0 while a checkpoint is created
  //   varve.block-cache-capacity, varve.block-cache-usage,
  //   varve.block-cache-pinned-usage  bytes
  //   varve.is-write-stopped          1 while writers are stopped
  //   varve.is-write-stalled          1 while writers are slowed down or
  //                                   stopped
  //   varve.actual-delayed-write-rate  bytes per second; 0 if not slowed down
  //   varve.io-path                   how tables are read
  //   varve.wal-path                  how the newest log is written: write or
  //                                   mapped; "none" without a log
  //   varve.statistics, varve.options-statistics   counters and histograms
  //   varve.prometheus                the same in Prometheus's text format
  //   varve.memory                    bytes of the whole process by kind: live,
  //                                   allocated, freed, freed by other threads
  //   varve.memory-by-thread          the same by thread name and id
  //   varve.statistics-path           how statistics are counted, or "none"
  //   varve.statistics-memory, varve.statistics-memory-reserved   bytes used,
  //                                   and bytes of address space
  //   varve.trace-clock               the clock of traces, and why it was
  //                                   chosen
  // A name can also begin with "rocksdb." or "leveldb.".
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  // As GetProperty, for properties whose value is a single number.
  virtual bool GetIntProperty(const Slice& property, uint64_t* value) = 0;

  // Stores in sizes[i] the approximate number of bytes that ranges[i] takes in
  // table files. Sizes are compressed sizes. Memtables are not included.
  virtual Status GetApproximateSizes(const Range* ranges, size_t count,
                                     uint64_t* sizes) = 0;

  // Flushes the memtables of the default family to tables.
  virtual Status Flush(const FlushOptions& options) = 0;

  // Syncs the log, as a write with WriteOptions::sync does. All earlier writes
  // are durable when it returns.
  virtual Status SyncWAL() = 0;

  // Writes buffered log records to the operating system. Only useful with
  // Options::manual_wal_flush. If `sync` is true, also syncs the log.
  virtual Status FlushWAL(bool sync) = 0;

  // Makes a DB writable again after a background failure made it read-only.
  // Call it when the cause has been removed. Resume waits for running
  // compactions, starts a new log and flushes all memtables, so that nothing
  // depends on files for which a write or sync has failed. It also restarts
  // compactions that were paused because the device was full. Returns OK if
  // there is nothing to resume from. After an error the DB stays read-only, and
  // Resume can be called again.
  //
  // After a full device or an exceeded quota, the DB calls Resume itself every
  // few seconds, and in each Delete, DeleteRange, Flush and CompactRange.
  virtual Status Resume() = 0;

  // Compacts the keys in [*begin, *end] and waits until this is done. A null
  // `begin` means the first key, a null `end` the last. If any memtable
  // overlaps the range, all memtables are flushed first.
  //
  // CompactRange can free space on a full device. Tables whose keys are all
  // covered by newer range deletions are removed without writing a table, if no
  // snapshot still sees the deleted keys.
  //
  // Errors:
  // - InvalidArgument: see CompactRangeOptions.
  // - ShutdownInProgress: the DB is being closed, or background work was
  //   cancelled; see CancelAllBackgroundWork.
  // - IsNoSpace: the device is full. Nothing is lost. The call can be repeated.
  virtual Status CompactRange(const CompactRangeOptions& options,
                              const Slice* begin, const Slice* end) = 0;

  // Changes options of the open DB. The changes last until it is closed. Values
  // have the syntax of SetOption (varve/options.h). The comment of an option
  // says whether it can be changed. Returns InvalidArgument, and changes
  // nothing, if one of the options cannot be changed or a value is out of
  // bounds. Returns NotSupported if the DB was opened for reading only.
  virtual Status SetOptions(
      const std::map<std::string, std::string>& changes) = 0;

  // Starts no further flushes and compactions. Running compactions are stopped
  // and their output is removed. If `wait` is true, returns when no job is
  // running. The DB can still be read, and written until its memtables are
  // full. After that, writes and other calls that need background work return
  // ShutdownInProgress. Close still flushes memtables as usual.
  virtual void CancelAllBackgroundWork(bool wait) = 0;

  // See varve/checkpoint.h.
  virtual Status CreateCheckpoint(const std::string& directory) = 0;

  // Waits until no job is pending or running: flushes, compactions, the removal
  // of dead entries that readers met or that a released snapshot needed, and of
  // obsolete files. First begins the flush of memtables with many deletions,
  // which is due when nothing is written for some seconds. Returns
  // ShutdownInProgress if some are pending but background work was cancelled
  // (CancelAllBackgroundWork) and no job is running.
  virtual Status WaitForCompact() = 0;

  // Reads every block of every table and verifies its checksum. The message of
  // a Corruption names the first bad file and offset.
  virtual Status VerifyChecksum() = 0;

  // Returns the sequence number of the newest update.
  virtual uint64_t GetLatestSequenceNumber() const = 0;

  // ---- Tables in and out: docs/ingestion.md, docs/live_files.md ----
  // The calls below return NotSupported for a DB that does not have them, for
  // example one of a program's own class.

  // Adds tables that SstFileWriter wrote, of Varve or of RocksDB, in one step:
  // after a crash either all files of all families are there or none. The keys
  // are newer than all that is in the database, except with ingest_behind. On
  // success the database owns its own name for each file. Later files of the
  // same family win; ranges of files that overlap get ascending numbers.
  //
  // Errors, after which nothing has changed: InvalidArgument if a file is no
  // table of SstFileWriter or the options forbid it; Corruption and IOError.
  virtual Status IngestExternalFiles(
      const std::vector<IngestExternalFileArg>& arguments);
  Status IngestExternalFile(ColumnFamilyHandle* family,
                            const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options);
  Status IngestExternalFile(const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options) {
    return IngestExternalFile(nullptr, files, options);
  }
  // Creates a family of the tables that Checkpoint::ExportColumnFamily made.
  virtual Status CreateColumnFamilyWithImport(
      const ColumnFamilyOptions& family_options, const std::string& name,
      const ImportColumnFamilyOptions& options,
      const ExportImportFilesMetaData& metadata, ColumnFamilyHandle** handle);

  // Keep obsolete tables and logs until as many calls enable their removal.
  virtual Status DisableFileDeletions();
  virtual Status EnableFileDeletions();
  // Stores the names, with a slash in front, of the tables, CURRENT, the
  // MANIFEST and the OPTIONS file, and the MANIFEST's valid bytes. Flushes all
  // families first if `flush` is true. Logs are not among them. A copy needs
  // the logs of GetSortedWalFiles, too, even after a flush.
  virtual Status GetLiveFiles(std::vector<std::string>* files,
                              uint64_t* manifest_file_size, bool flush = true);
  // Stores all files of one state of the database, with logs. Waits for
  // writers, so a listener must not call it.
  virtual Status GetLiveFilesStorageInfo(
      const LiveFilesStorageInfoOptions& options,
      std::vector<LiveFileStorageInfo>* files);
  // Stores the tables of all families.
  virtual void GetLiveFilesMetaData(std::vector<LiveFileMetaData>* metadata);
  virtual void GetColumnFamilyMetaData(ColumnFamilyHandle* family,
                                       ColumnFamilyMetaData* metadata);
  // Store all logs, oldest first, with archived and obsolete ones as long as
  // they exist; the newest log, or null before the first write. As above for
  // listeners.
  virtual Status GetSortedWalFiles(VectorWalPtr* files);
  virtual Status GetCurrentWalFile(std::unique_ptr<WalFile>* file);
  // Stores an iterator over the batches of the logs, from the one that contains
  // the sequence number, or the first one after it. 0 is the first update, and
  // GetLatestSequenceNumber() + 1 the next one. See varve/transaction_log.h,
  // and Options::WAL_ttl_seconds to keep logs.
  //
  // Errors: NotFound if that update is in no log any more, with the oldest
  // number that is, or if the number is larger than the next one; Corruption
  // and IOError.
  virtual Status GetUpdatesSince(
      uint64_t sequence, std::unique_ptr<TransactionLogIterator>* iterator,
      const TransactionLogIterator::ReadOptions& options = {});

  // Stores the smallest creation time of the tables, in seconds since 1970, or
  // 0 if one does not know its own. UINT64_MAX without tables.
  virtual Status GetCreationTimeOfOldestFile(uint64_t* creation_time);

  // Removes the tables that lie as a whole in one of the ranges, without a
  // compaction, in one step. Level 0 is kept. Snapshots lose the keys, too, and
  // an older value of a removed key can become visible. With `include_end`, the
  // limits belong to the ranges.
  virtual Status DeleteFilesInRanges(ColumnFamilyHandle* family,
                                     const RangePtr* ranges, size_t count,
                                     bool include_end = true);
  // Compacts the named tables, and those that must go with them, into
  // `output_level`; within level 0, into one table. A name can be a path.
  // Returns InvalidArgument if one does not exist or is below that level, and
  // Aborted if one is in a compaction. The new tables' paths are stored in
  // *outputs unless it is null.
  virtual Status CompactFiles(const CompactionOptions& options,
                              ColumnFamilyHandle* family,
                              const std::vector<std::string>& inputs,
                              int output_level,
                              std::vector<std::string>* outputs = nullptr);
  // Marks the tables of [*begin, *end] for compaction, and returns.
  // Tables of the deepest level stay as they are.
  virtual Status SuggestCompactRange(ColumnFamilyHandle* family,
                                     const Slice* begin, const Slice* end);
  // Moves all tables of level 0 to the empty `target_level`. Returns
  // InvalidArgument if they overlap, or a level down to it is not empty.
  virtual Status PromoteL0(ColumnFamilyHandle* family, int target_level);

  // Store the properties of all tables, or of the tables that overlap the
  // ranges with their limits, by path. Read the files.
  virtual Status GetPropertiesOfAllTables(ColumnFamilyHandle* family,
                                          TablePropertiesCollection* result);
  virtual Status GetPropertiesOfTablesInRange(
      ColumnFamilyHandle* family, const Range* ranges, size_t count,
      TablePropertiesCollection* result);

  // Stores the numbers of the property cfstats by name, as text: for each level
  // and for "Sum" compaction.<level>.<NumFiles, SizeBytes, Score, ReadGB, RnGB,
  // Rnp1GB, WriteGB, MovedGB, WriteAmp, ReadMBps, WriteMBps, CompSec,
  // CompCount, AvgSec, KeyIn, KeyDrop>, and io_stalls.<cause>, the number of
  // writes that were slowed down or stopped. Returns false for another
  // property.
  virtual bool GetMapProperty(ColumnFamilyHandle* family, const Slice& property,
                              std::map<std::string, std::string>* value);
  bool GetMapProperty(const Slice& property,
                      std::map<std::string, std::string>* value) {
    return GetMapProperty(nullptr, property, value);
  }
  // Stores the sum of an integer property over all families.
  virtual bool GetAggregatedIntProperty(const Slice& property, uint64_t* value);

  // ---- Further reads and names ----

  // Returns false only if the key does not exist. Reads no file. If the value
  // is in memory, stores it in *value, and true in *value_found; both can be
  // null.
  virtual bool KeyMayExist(const ReadOptions& options,
                           ColumnFamilyHandle* family, const Slice& key,
                           std::string* value, bool* value_found = nullptr);
  // Stores the operands of the key, oldest first, in operands[i], and how many
  // in *count. A value below them is the first. Returns Incomplete and the
  // number if there are more than expected, NotFound if there is no entry.
  virtual Status GetMergeOperands(const ReadOptions& options,
                                  ColumnFamilyHandle* family, const Slice& key,
                                  PinnableSlice* operands,
                                  GetMergeOperandsOptions* limits, int* count);
  // Returns the DB that Open has created: this one, unless it wraps others.
  // It is valid as long as this one.
  virtual DB* GetRootDB() { return this; }
  // Returns the path that Open got, and its Env.
  virtual const std::string& GetName() const;
  virtual Env* GetEnv() const;
  // Return the present options.
  virtual Options GetOptions(ColumnFamilyHandle* family = nullptr) const;
  virtual DBOptions GetDBOptions() const;
  // Changes options of the database, as SetOptions does for a family. The
  // comment of an option says whether it can be changed.
  virtual Status SetDBOptions(
      const std::map<std::string, std::string>& changes);
};

// Deletes the files of the database in `path`, of all its column families, and
// the directory if nothing else is in it. Files that do not belong to a
// database are kept. Returns OK if there is no database. Returns Busy if it is
// open, except if it is only open for reading; its readers will then get
// errors.
VARVE_EXPORT Status DestroyDB(const std::string& path, const Options& options);
// The same: the families of the database need not be given.
inline Status DestroyDB(
    const std::string& path, const Options& options,
    const std::vector<ColumnFamilyDescriptor>& /*families*/) {
  return DestroyDB(path, options);
}

// Rebuilds a database whose CURRENT, MANIFEST, logs or tables are missing or
// damaged. Keeps every entry that can be read: all intact blocks of a table,
// and all intact records of a log, including those after damage. Data that the
// device cannot read counts as damaged. The original files are moved to lost/,
// from which logs that an Open did not replay are read. Foreign files are kept.
//
// Deleted or overwritten entries can reappear with an older value if the newer
// data cannot be read, or if there is no MANIFEST. The comparator and key_case
// must be those that the database was written with.
//
// Column families keep their ids and names, and families that were dropped stay
// so, as far as the MANIFEST can be read. Otherwise the tables tell the ids and
// names. A family that only updates in a log show gets the name "family-<id>".
// If other families exist, a table that does not show its own becomes a family
// "table-<number>". DBOptions::info_log receives these names. The options are
// used for all families, but a family other than the default one that was
// written with another comparator of the library keeps that.
//
// Errors. After an error nothing is lost, and the repair can be repeated.
// - Busy: the database is open.
// - InvalidArgument: there is no database, a column family has another
//   comparator, or its key_case is different. If no MANIFEST records the
//   key_case, kInsensitive is refused when there are keys that folding would
//   change.
// - NotSupported: the database uses a feature that Varve does not have, or no
//   MANIFEST records the comparator and it is not the given one.
// - IOError and others: a file could not be opened or written.
VARVE_EXPORT Status RepairDB(const std::string& path, const Options& options);

// As above, with the options of single column families. The default family must
// be among `families`; otherwise returns InvalidArgument. Families that are not
// given are left out of the repaired database, and their files are only in
// lost/. DBOptions::info_log receives their names.
VARVE_EXPORT Status
RepairDB(const std::string& path, const DBOptions& options,
         const std::vector<ColumnFamilyDescriptor>& families);

// As above, but repairs families that are not given with the options
// `unknown_families`, or with the comparator of the library that they were
// written with.
VARVE_EXPORT Status
RepairDB(const std::string& path, const DBOptions& options,
         const std::vector<ColumnFamilyDescriptor>& families,
         const ColumnFamilyOptions& unknown_families);

}  // namespace varve
