// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "db/transaction/locks/lock_owner.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class ColumnFamilyHandle;
class TransactionDbImpl;
class WriteBatch;

// The locks of a write outside of transactions, until it is destroyed.
class WriteLocks {
 public:
  explicit WriteLocks(TransactionDbImpl* db);
  ~WriteLocks();
  WriteLocks(const WriteLocks&) = delete;
  WriteLocks& operator=(const WriteLocks&) = delete;

  // Locks a key. The handle is not null.
  Status Lock(ColumnFamilyHandle* family, const Slice& key);
  // Locks the keys of a batch, in an order that is the same for all batches:
  // so two of them never wait for each other. Returns NotSupported if it has
  // range deletions.
  Status LockAll(const WriteBatch& batch);

 private:
  Status LockStored(uint32_t family, const Slice& key);

  TransactionDbImpl& db_;
  LockOwner owner_;
};

}  // namespace varve
