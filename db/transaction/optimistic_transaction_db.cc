// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/optimistic_transaction_db.h"

namespace varve {

Status OptimisticTransactionDB::Open(
    const Options& /*options*/, const std::string& path,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  db->reset();
  return Status::NotSupported(path, "transactions");
}

Status OptimisticTransactionDB::Open(
    const DBOptions& /*options*/, const std::string& path,
    const std::vector<ColumnFamilyDescriptor>& /*families*/,
    std::vector<ColumnFamilyHandle*>* handles,
    std::unique_ptr<OptimisticTransactionDB>* db) {
  handles->clear();
  db->reset();
  return Status::NotSupported(path, "transactions");
}

}  // namespace varve
