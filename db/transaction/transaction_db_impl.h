// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "db/transaction/locks/lock_table.h"
#include "db/transaction/transaction_base.h"
#include "util/base/mutex.h"
#include "varve/transaction_db.h"

namespace varve {

class PessimisticTransaction;
class WriteLocks;

// Returns LockRequest::timeout_us for a timeout in milliseconds, of which a
// negative one has no end.
int64_t LockTimeoutUs(int64_t timeout_ms);

class TransactionDbImpl final : public TransactionDB {
 public:
  // `engine` is below `db`, which may fold keys.
  TransactionDbImpl(std::shared_ptr<DB> db, DBImpl* engine,
                    const TransactionDBOptions& options);
  ~TransactionDbImpl() override;
  // See DBImpl::AbandonWith: threads of the parent may have held locks here.
  static void operator delete(TransactionDbImpl* db, std::destroying_delete_t);

  // Creates the prepared transactions that the log has. Called once.
  Status RecoverPrepared();

  Transaction* BeginTransaction(const WriteOptions& write_options,
                                const TransactionOptions& options,
                                Transaction* old) override;
  Transaction* GetTransactionByName(const TransactionName& name) override;
  void GetAllPreparedTransactions(
      std::vector<Transaction*>* transactions) override;
  std::unordered_multimap<uint32_t, KeyLockInfo> GetLockStatusData() override {
    return locks_.GetLockStatusData();
  }
  std::vector<DeadlockPath> GetDeadlockInfoBuffer() override {
    return locks_.GetDeadlockInfoBuffer();
  }
  void SetDeadlockInfoBufferSize(uint32_t count) override {
    locks_.SetDeadlockInfoBufferSize(count);
  }

  // Writes outside of transactions.
  Status Put(const WriteOptions& options, const Slice& key,
             const Slice& value) override {
    return Put(options, nullptr, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    return Delete(options, nullptr, key);
  }
  Status SingleDelete(const WriteOptions& options, const Slice& key) override {
    return SingleDelete(options, nullptr, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key,
               const Slice& operand) override {
    return Merge(options, nullptr, key, operand);
  }
  Status DeleteRange(const WriteOptions& options, const Slice& begin,
                     const Slice& end) override {
    return DeleteRange(options, nullptr, begin, end);
  }
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family,
             const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family,
                const Slice& key) override;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family,
                      const Slice& key) override;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family,
               const Slice& key, const Slice& operand) override;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* family,
                     const Slice& begin, const Slice& end) override;
  Status Write(const WriteOptions& options, WriteBatch* batch) override;
  Status Write(const WriteOptions& options,
               const TransactionDBWriteOptimizations& optimizations,
               WriteBatch* batch) override;

  Status DropColumnFamily(ColumnFamilyHandle* family) override;
  Status DropColumnFamilies(
      const std::vector<ColumnFamilyHandle*>& families) override;

  // ---- For transactions ----

  const TransactionContext& context() const { return context_; }
  const TransactionDBOptions& options() const { return options_; }
  LockTable* locks() { return &locks_; }
  uint64_t NewId() {
    // relaxed: only the number matters.
    return next_id_.fetch_add(1, std::memory_order_relaxed);
  }
  // Returns false if another transaction has this name.
  bool AddName(const TransactionName& name, PessimisticTransaction* transaction)
      VARVE_EXCLUDES(names_mutex_);
  // Does nothing if the name is another transaction's by now.
  void RemoveName(const TransactionName& name,
                  const PessimisticTransaction* transaction)
      VARVE_EXCLUDES(names_mutex_);
  // Called by a transaction with a name that is another one from now on.
  void Forget(PessimisticTransaction* transaction) VARVE_EXCLUDES(names_mutex_);

 private:
  Status LockKey(ColumnFamilyHandle* family, const Slice& key,
                 WriteLocks* locks);

  const TransactionDBOptions options_;
  const TransactionContext context_;
  LockTable locks_;
  std::atomic<uint64_t> next_id_{1};

  Mutex names_mutex_;
  std::unordered_map<TransactionName, PessimisticTransaction*> names_
      VARVE_GUARDED_BY(names_mutex_);
  // Those that recovery has found, and nobody has destroyed.
  std::unordered_set<PessimisticTransaction*> recovered_
      VARVE_GUARDED_BY(names_mutex_);
};

}  // namespace varve
