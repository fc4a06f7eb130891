// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/transaction_db.h"

namespace varve {

Status TransactionDB::Open(const Options& /*options*/,
                           const TransactionDBOptions& /*transaction_options*/,
                           const std::string& path,
                           std::unique_ptr<TransactionDB>* db) {
  db->reset();
  return Status::NotSupported(path, "transactions");
}

Status TransactionDB::Open(
    const DBOptions& /*options*/,
    const TransactionDBOptions& /*transaction_options*/,
    const std::string& path,
    const std::vector<ColumnFamilyDescriptor>& /*families*/,
    std::vector<ColumnFamilyHandle*>* handles,
    std::unique_ptr<TransactionDB>* db) {
  handles->clear();
  db->reset();
  return Status::NotSupported(path, "transactions");
}

}  // namespace varve
