// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/optimistic_transaction_db.h"

#include <utility>

#include "db/engine/family_handle.h"
#include "db/transaction/optimistic_transaction.h"

namespace varve {

namespace {

class OptimisticTransactionDbImpl final : public OptimisticTransactionDB {
 public:
  explicit OptimisticTransactionDbImpl(std::unique_ptr<DB> db)
      : OptimisticTransactionDB(std::move(db)),
        context_(Context(GetBaseDB())) {}

  Transaction* BeginTransaction(const WriteOptions& write_options,
                                const OptimisticTransactionOptions& options,
                                Transaction* old) override {
    if (old == nullptr) {
      return new OptimisticTransaction(context_, write_options, options);
    }
    auto* const transaction = static_cast<OptimisticTransaction*>(old);
    transaction->Reuse(write_options, options);
    return transaction;
  }

 private:
  static TransactionContext Context(DB* db) {
    DBImpl* const engine = FamilyHandle::EngineOf(*db->DefaultColumnFamily());
    return {.db = db,
            .engine = engine,
            .default_family = engine->DefaultColumnFamily(),
            .env = engine->GetEnv(),
            .stats = engine->stats()};
  }

  const TransactionContext context_;
};

}  // namespace

Status OptimisticTransactionDB::Open(
    const Options& options, const std::string& path,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  db->reset();
  std::unique_ptr<DB> opened;
  Status status = DB::Open(options, path, &opened);
  if (!status.ok()) return status;
  *db = std::make_unique<OptimisticTransactionDbImpl>(std::move(opened));
  return status;
}

Status OptimisticTransactionDB::Open(
    const DBOptions& options, const std::string& path,
    const std::vector<ColumnFamilyDescriptor>& families,
    std::vector<ColumnFamilyHandle*>* handles,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  db->reset();
  std::unique_ptr<DB> opened;
  Status status = DB::Open(options, path, families, handles, &opened);
  if (!status.ok()) return status;
  *db = std::make_unique<OptimisticTransactionDbImpl>(std::move(opened));
  return status;
}

}  // namespace varve
