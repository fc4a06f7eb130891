// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/write_locks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "db/transaction/transaction_db_impl.h"
#include "db/write/write_batch_internal.h"

namespace varve {

WriteLocks::WriteLocks(TransactionDbImpl* db) : db_(*db), owner_(db->NewId()) {}

WriteLocks::~WriteLocks() { db_.locks()->UnlockAll(&owner_); }

Status WriteLocks::LockStored(uint32_t family, const Slice& key) {
  return db_.locks()->Lock(
      &owner_, {.family = family,
                .key = key,
                .timeout_us = LockTimeoutUs(db_.options().default_lock_timeout),
                .detects_deadlock = false});
}

Status WriteLocks::Lock(ColumnFamilyHandle* family, const Slice& key) {
  BatchIndex::StoredKey stored;
  Status status = stored.Set(key, FamilyHandle::FoldingOf(*family));
  return status.ok() ? LockStored(family->GetID(), stored.slice()) : status;
}

Status WriteLocks::LockAll(const WriteBatch& batch) {
  // All families of a database fold their keys, or none.
  const KeyFolding folding =
      FamilyHandle::FoldingOf(*db_.context().default_family);
  std::vector<std::pair<uint32_t, std::string>> keys;
  BatchReader reader;
  Status status = reader.Init(batch.Data());
  for (;;) {
    BatchRecord record;
    bool done = false;
    if (status.ok()) status = reader.NextOfOurs(&record, &done);
    if (!status.ok()) return status.Annotate("batch");
    if (done) break;
    if (record.is_log_data) continue;
    if (record.type == ValueType::kRangeDeletion) {
      return Status::NotSupported(
          "a range deletion in a TransactionDB, which has no locks of ranges");
    }
    BatchIndex::StoredKey stored;
    status = stored.Set(record.key, folding);
    if (status.ok()) {
      keys.emplace_back(record.family, stored.slice().ToString());
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const auto& [family, key] : keys) {
    status = LockStored(family, key);
    if (!status.ok()) return status;
  }
  return status;
}

}  // namespace varve
