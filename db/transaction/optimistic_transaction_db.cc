// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/optimistic_transaction_db.h"

#include <utility>

#include "db/transaction/optimistic_transaction.h"

namespace varve {

namespace {

class OptimisticTransactionDbImpl final : public OptimisticTransactionDB {
 public:
  OptimisticTransactionDbImpl(std::unique_ptr<DB> db, DBImpl* engine, Env* env)
      : OptimisticTransactionDB(std::move(db)),
        context_{.db = base(),
                 .engine = engine,
                 .default_family = engine->DefaultColumnFamily(),
                 .env = env,
                 .stats = engine->stats()} {}

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
  const TransactionContext context_;
};

}  // namespace

Status OptimisticTransactionDB::Open(
    const Options& options, const std::string& path,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  db->reset();
  std::unique_ptr<DB> opened;
  DBImpl* engine = nullptr;
  Status status = DBImpl::OpenWithEngine(options, path, &opened, &engine);
  if (!status.ok()) return status;
  *db = std::make_unique<OptimisticTransactionDbImpl>(std::move(opened), engine,
                                                      options.env);
  return status;
}

Status OptimisticTransactionDB::Open(
    const DBOptions& options, const std::string& path,
    const std::vector<ColumnFamilyDescriptor>& families,
    std::vector<ColumnFamilyHandle*>* handles,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  db->reset();
  std::unique_ptr<DB> opened;
  DBImpl* engine = nullptr;
  Status status = DBImpl::OpenWithEngine(options, path, families, handles,
                                         &opened, &engine);
  if (!status.ok()) return status;
  *db = std::make_unique<OptimisticTransactionDbImpl>(std::move(opened), engine,
                                                      options.env);
  return status;
}

}  // namespace varve
