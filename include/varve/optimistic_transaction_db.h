// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "varve/column_family.h"
#include "varve/export.h"
#include "varve/options.h"
#include "varve/stackable_db.h"
#include "varve/status.h"
#include "varve/transaction.h"

namespace varve {

// Which changes of other writers make a commit fail.
enum class TransactionIsolation : uint8_t {
  // Changes of keys that the transaction writes, or has read by GetForUpdate.
  // If all reads use the transaction's snapshot, this is snapshot isolation.
  // RocksDB's.
  kSnapshot,
  // Changes of anything that the transaction has read, too: keys, whether they
  // exist or not, and the ranges over which its iterators have moved. Committed
  // transactions then have an order in which they could have run one after the
  // other. The transaction takes a snapshot at its first operation, and reads
  // at that. RocksDB does not have this.
  kSerializable,
};

// Options of OptimisticTransactionDB::BeginTransaction.
struct OptimisticTransactionOptions {
  // Call SetSnapshot at the begin. Default: false.
  bool set_snapshot = false;

  // Default: kSnapshot.
  TransactionIsolation isolation = TransactionIsolation::kSnapshot;
};

// A DB whose transactions find conflicts in Commit. They take no locks, so they
// never wait for each other, and a transaction that does not commit costs
// others nothing. Use it if conflicts are rare.
//
// A conflict is a newer update of a key, by a transaction or by a plain write
// of this DB: see Transaction::SetSnapshot. Commit looks for it in the
// memtables and in those tables only that have newer updates, and nothing is
// kept in memory for it. The check and the commit are one step for all other
// writers, including plain writes. So a commit never fails because a flush or
// compaction has run, and there is no size of a history to choose.
//
// GetBaseDB() returns the DB without transactions. Commits find conflicts with
// its writes, too, so it makes no difference which of the two DBs a program
// uses for reads, writes and maintenance.
//
// Thread-safety: as DB's. Lifetime: as DB's; transactions must be destroyed
// before.
class VARVE_EXPORT OptimisticTransactionDB : public StackableDB {
 public:
  // As DB::Open.
  static Status Open(const Options& options, const std::string& path,
                     std::unique_ptr<OptimisticTransactionDB>* db);
  static Status Open(const DBOptions& options, const std::string& path,
                     const std::vector<ColumnFamilyDescriptor>& families,
                     std::vector<ColumnFamilyHandle*>* handles,
                     std::unique_ptr<OptimisticTransactionDB>* db);

  // Begins a transaction, which the caller must delete. If `old` is not null,
  // it must be of this DB; it is rolled back if it has not ended, and used
  // again with its memory. Never returns null. Takes no lock, and with `old`
  // allocates nothing.
  virtual Transaction* BeginTransaction(
      const WriteOptions& write_options,
      const OptimisticTransactionOptions& options =
          OptimisticTransactionOptions(),
      Transaction* old = nullptr) = 0;

 protected:
  using StackableDB::StackableDB;
};

}  // namespace varve
