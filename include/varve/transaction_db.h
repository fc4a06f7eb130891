// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "varve/column_family.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/stackable_db.h"
#include "varve/status.h"
#include "varve/transaction.h"

namespace varve {

// When updates of a transaction are written to the memtables.
enum TxnDBWritePolicy {
  WRITE_COMMITTED = 0,  // In Commit.
  // RocksDB's other ones. Open returns NotSupported.
  WRITE_PREPARED,
  WRITE_UNPREPARED,
};

// Options of TransactionDB::Open. Times are in milliseconds.
struct TransactionDBOptions {
  // The most keys of a column family that may be locked at a time. Further
  // locks return Busy (IsLockLimit()). No limit if it is not positive.
  // Default: -1.
  int64_t max_num_locks = -1;

  // The number of deadlocks that GetDeadlockInfoBuffer returns. Default: 5.
  uint32_t max_num_deadlocks = 5;

  // The number of parts of the lock table, each with its own mutex. It is for
  // all column families. Rounded up to a power of two, in [1, 65536].
  // Default: 256.
  size_t num_stripes = 256;

  // How long a transaction waits for a lock. 0 does not wait. Negative: no
  // limit. Default: 1000.
  int64_t transaction_lock_timeout = 1000;

  // The same, for a write of the DB itself, outside of transactions.
  // Default: 1000.
  int64_t default_lock_timeout = 1000;

  // Default: WRITE_COMMITTED.
  TxnDBWritePolicy write_policy = WRITE_COMMITTED;

  // Take no locks, in no transaction and no write. The program must see to it
  // that transactions do not conflict. Default: false.
  bool skip_concurrency_control = false;
};

// Options of TransactionDB::BeginTransaction. Times are in milliseconds.
struct TransactionOptions {
  // Call SetSnapshot at the begin. Default: false.
  bool set_snapshot = false;

  // Before waiting for a lock, look whether the transactions would wait for
  // each other, and return Busy (IsDeadlock()) in that case. Without it, one of
  // them times out. Default: false.
  bool deadlock_detect = false;

  // How long to wait for a lock. 0 does not wait. Negative: as
  // TransactionDBOptions::transaction_lock_timeout says. Default: -1.
  int64_t lock_timeout = -1;

  // From this time after the begin on, Commit returns Expired, and other
  // transactions may take the locks. Negative: never. Default: -1.
  int64_t expiration = -1;

  // The number of transactions after which the search for a deadlock assumes
  // that there is one. Default: 50.
  int64_t deadlock_detect_depth = 50;

  // The most bytes of updates. 0: no limit. Default: 0.
  size_t max_write_batch_size = 0;

  // Take no locks. Default: false.
  bool skip_concurrency_control = false;

  // Commit may be called without Prepare even if the transaction has a name.
  // Default: true.
  bool skip_prepare = true;
};

// Tells TransactionDB::Write what need not be done for a batch.
struct TransactionDBWriteOptimizations {
  // Take no locks. Default: false.
  bool skip_concurrency_control = false;
  // Has no effect in Varve. Default: false.
  bool skip_duplicate_key_check = false;
};

// A key that is locked.
struct VARVE_USES_CONTAINERS KeyLockInfo {
  std::string key;
  std::vector<TransactionID> ids;  // The transactions that hold the lock.
  bool exclusive = false;
};

// A transaction, and the lock that it waits for. The next one of the path has
// it, or is before it in the queue.
struct VARVE_USES_CONTAINERS DeadlockInfo {
  TransactionID m_txn_id = 0;
  uint32_t m_cf_id = 0;
  bool m_exclusive = false;
  std::string m_waiting_key;
};

// A cycle of transactions. The last one closed it and got the error. It would
// have waited for the first one.
struct VARVE_USES_CONTAINERS DeadlockPath {
  std::vector<DeadlockInfo> path;
  // The search ended before it found a cycle; `path` is empty.
  bool limit_exceeded = false;
  int64_t deadlock_time = 0;  // Seconds since 1970.

  // Returns true if there is no deadlock.
  bool empty() const { return path.empty() && !limit_exceeded; }
};

// A DB whose transactions lock the keys that they write, or read by
// GetForUpdate, until they end. So they wait for each other, and a commit
// cannot fail because of a conflict. Writes of the DB itself lock their keys,
// too, while they run. Use it if conflicts are frequent, or for two-phase
// commit.
//
// It opens the same directories as DB and RocksDB's TransactionDB, and finds
// the transactions in them that are prepared and not settled.
//
// GetBaseDB() returns the DB without transactions, for reads and maintenance.
// Its writes neither take locks nor wait for them, so they can change a key
// that a transaction has locked. Drop column families by the TransactionDB,
// which then also releases their locks.
//
// Thread-safety: as DB's. Lifetime: as DB's; transactions must be destroyed
// before.
class VARVE_EXPORT TransactionDB : public StackableDB {
 public:
  // As DB::Open. Prepared transactions of the log exist when it returns, and
  // hold their locks: see GetAllPreparedTransactions. Errors in addition:
  // NotSupported for a write_policy other than WRITE_COMMITTED, and for a
  // directory that was written with one.
  static Status Open(const Options& options,
                     const TransactionDBOptions& transaction_options,
                     const std::string& path,
                     std::unique_ptr<TransactionDB>* db);
  static Status Open(const DBOptions& options,
                     const TransactionDBOptions& transaction_options,
                     const std::string& path,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<TransactionDB>* db);

  // Creates a TransactionDB from an open DB, with the prepared transactions
  // that its log has. `db` is destroyed with the TransactionDB unless it is
  // shared; see above for writes to it. REQUIRES: no TransactionDB wraps `db`.
  //
  // `db` can be a StackableDB over a DB that Varve has opened. Transactions
  // read by its functions, but Commit writes to its GetRootDB(). So it must not
  // change keys or values, as DBWithTTL does.
  //
  // If the call fails, `db` is unchanged, and destroyed unless it is shared.
  // Errors:
  // - InvalidArgument: `db` is null or was not opened by Varve.
  // - NotSupported: a write_policy other than WRITE_COMMITTED.
  static Status WrapDB(std::shared_ptr<DB> db,
                       const TransactionDBOptions& transaction_options,
                       std::unique_ptr<TransactionDB>* wrapped);

  // Writes of the DB lock the keys of their updates, as a transaction with
  // default options, and can return the same errors. DeleteRange, and a batch
  // with range deletions, return NotSupported: there are no locks of ranges.
  // They are allowed with skip_concurrency_control.
  using StackableDB::Write;
  virtual Status Write(const WriteOptions& options,
                       const TransactionDBWriteOptimizations& optimizations,
                       WriteBatch* batch) = 0;

  // Begins a transaction, which the caller must delete. If `old` is not null,
  // it must be of this DB and not prepared; it is rolled back if it has not
  // ended, and used again with its memory. Never returns null. Takes no lock,
  // and with `old` allocates nothing.
  virtual Transaction* BeginTransaction(
      const WriteOptions& write_options,
      const TransactionOptions& options = TransactionOptions(),
      Transaction* old = nullptr) = 0;

  // Returns the live transaction of that name, or null.
  virtual Transaction* GetTransactionByName(const TransactionName& name) = 0;
  // Stores all prepared transactions in *transactions: the ones that Open has
  // found, and this process's own whose object exists. The caller must
  // delete one that Open has found. A prepared transaction that is destroyed
  // without Commit or Rollback stays prepared in the log, without locks, until
  // the DB is opened again.
  virtual void GetAllPreparedTransactions(
      std::vector<Transaction*>* transactions) = 0;

  // Returns all locks, by the id of the column family. Each one is as it was at
  // some moment of the call.
  virtual std::unordered_multimap<uint32_t, KeyLockInfo>
  GetLockStatusData() = 0;
  // Returns the last deadlocks, the newest first.
  virtual std::vector<DeadlockPath> GetDeadlockInfoBuffer() = 0;
  // Sets TransactionDBOptions::max_num_deadlocks. The oldest ones are lost.
  virtual void SetDeadlockInfoBufferSize(uint32_t count) = 0;

 protected:
  using StackableDB::StackableDB;
};

}  // namespace varve
