// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/transaction/transaction_db_impl.h"

#include <algorithm>
#include <utility>

#include "db/engine/family_handle.h"
#include "db/indexed_batch/batch_index.h"
#include "db/transaction/pessimistic_transaction.h"
#include "db/transaction/write_locks.h"

namespace varve {

namespace {

LockTableOptions TableOptions(Env* env, const TransactionDBOptions& options) {
  return {.env = env,
          .max_num_locks = options.max_num_locks,
          .max_num_deadlocks = options.max_num_deadlocks,
          .stripe_count = static_cast<uint32_t>(
              std::clamp<size_t>(options.num_stripes, 1, 65536))};
}

Status NoRangeLocksError() {
  return Status::NotSupported(
      "DeleteRange in a TransactionDB, which has no locks of ranges");
}

}  // namespace

int64_t LockTimeoutUs(int64_t timeout_ms) {
  if (timeout_ms < 0 || timeout_ms > INT64_MAX / 1000) {
    return LockRequest::kForever;
  }
  return timeout_ms * 1000;
}

TransactionDbImpl::TransactionDbImpl(std::shared_ptr<DB> db, DBImpl* engine,
                                     const TransactionDBOptions& options)
    : TransactionDB(std::move(db)),
      options_(options),
      context_{.db = GetBaseDB(),
               .engine = engine,
               .default_family = engine->DefaultColumnFamily(),
               .env = engine->GetEnv(),
               .stats = engine->stats()},
      locks_(TableOptions(context_.env, options)) {}

TransactionDbImpl::~TransactionDbImpl() {
  std::unordered_set<PessimisticTransaction*> left;
  {
    const MutexLock lock(&names_mutex_);
    left.swap(recovered_);
  }
  for (PessimisticTransaction* const transaction : left) delete transaction;
}

void TransactionDbImpl::operator delete(TransactionDbImpl* db,
                                        std::destroying_delete_t) {
  if (!db->context_.engine->AbandonWith(db)) ::delete db;
}

// ---- Transactions -----------------------------------------------------------

Transaction* TransactionDbImpl::BeginTransaction(
    const WriteOptions& write_options, const TransactionOptions& options,
    Transaction* old) {
  if (old == nullptr) {
    return new PessimisticTransaction(this, write_options, options);
  }
  auto* const transaction = static_cast<PessimisticTransaction*>(old);
  transaction->Reuse(write_options, options);
  return transaction;
}

bool TransactionDbImpl::AddName(const TransactionName& name,
                                PessimisticTransaction* transaction) {
  const MutexLock lock(&names_mutex_);
  return names_.emplace(name, transaction).second;
}

void TransactionDbImpl::RemoveName(const TransactionName& name,
                                   const PessimisticTransaction* transaction) {
  const MutexLock lock(&names_mutex_);
  const auto it = names_.find(name);
  if (it != names_.end() && it->second == transaction) names_.erase(it);
}

void TransactionDbImpl::Forget(PessimisticTransaction* transaction) {
  RemoveName(transaction->GetName(), transaction);
  const MutexLock lock(&names_mutex_);
  recovered_.erase(transaction);
}

Transaction* TransactionDbImpl::GetTransactionByName(
    const TransactionName& name) {
  const MutexLock lock(&names_mutex_);
  const auto it = names_.find(name);
  return it == names_.end() ? nullptr : it->second;
}

void TransactionDbImpl::GetAllPreparedTransactions(
    std::vector<Transaction*>* transactions) {
  transactions->clear();
  const MutexLock lock(&names_mutex_);
  for (const auto& [name, transaction] : names_) {
    if (transaction->GetState() == Transaction::PREPARED) {
      transactions->push_back(transaction);
    }
  }
}

// ---- Writes outside of transactions -----------------------------------------

Status TransactionDbImpl::LockKey(ColumnFamilyHandle* family, const Slice& key,
                                  WriteLocks* locks) {
  if (options_.skip_concurrency_control) return Status::OK();
  return locks->Lock(family == nullptr ? context_.default_family : family, key);
}

Status TransactionDbImpl::Put(const WriteOptions& options,
                              ColumnFamilyHandle* family, const Slice& key,
                              const Slice& value) {
  WriteLocks locks(this);
  Status status = LockKey(family, key, &locks);
  return status.ok() ? GetBaseDB()->Put(options, family, key, value) : status;
}

Status TransactionDbImpl::Delete(const WriteOptions& options,
                                 ColumnFamilyHandle* family, const Slice& key) {
  WriteLocks locks(this);
  Status status = LockKey(family, key, &locks);
  return status.ok() ? GetBaseDB()->Delete(options, family, key) : status;
}

Status TransactionDbImpl::SingleDelete(const WriteOptions& options,
                                       ColumnFamilyHandle* family,
                                       const Slice& key) {
  WriteLocks locks(this);
  Status status = LockKey(family, key, &locks);
  return status.ok() ? GetBaseDB()->SingleDelete(options, family, key) : status;
}

Status TransactionDbImpl::Merge(const WriteOptions& options,
                                ColumnFamilyHandle* family, const Slice& key,
                                const Slice& operand) {
  WriteLocks locks(this);
  Status status = LockKey(family, key, &locks);
  return status.ok() ? GetBaseDB()->Merge(options, family, key, operand)
                     : status;
}

Status TransactionDbImpl::DeleteRange(const WriteOptions& options,
                                      ColumnFamilyHandle* family,
                                      const Slice& begin, const Slice& end) {
  if (!options_.skip_concurrency_control) return NoRangeLocksError();
  return GetBaseDB()->DeleteRange(options, family, begin, end);
}

Status TransactionDbImpl::Write(const WriteOptions& options,
                                WriteBatch* batch) {
  return Write(options, TransactionDBWriteOptimizations(), batch);
}

Status TransactionDbImpl::Write(
    const WriteOptions& options,
    const TransactionDBWriteOptimizations& optimizations, WriteBatch* batch) {
  WriteLocks locks(this);
  Status status;
  if (batch != nullptr && !options_.skip_concurrency_control &&
      !optimizations.skip_concurrency_control) {
    status = locks.LockAll(*batch);
  }
  return status.ok() ? GetBaseDB()->Write(options, batch) : status;
}

// ---- Column families --------------------------------------------------------

Status TransactionDbImpl::DropColumnFamily(ColumnFamilyHandle* family) {
  const uint32_t id = family == nullptr ? 0 : family->GetID();
  Status status = GetBaseDB()->DropColumnFamily(family);
  if (status.ok()) locks_.DropFamily(id);
  return status;
}

Status TransactionDbImpl::DropColumnFamilies(
    const std::vector<ColumnFamilyHandle*>& families) {
  Status status;
  for (ColumnFamilyHandle* const family : families) {
    if (status.ok()) status = DropColumnFamily(family);
  }
  return status;
}

// ---- Opening ----------------------------------------------------------------

namespace {

Status CheckTransactionOptions(const TransactionDBOptions& options) {
  if (options.write_policy == WRITE_COMMITTED) return Status::OK();
  return Status::NotSupported(
      "TransactionDBOptions::write_policy: only WRITE_COMMITTED");
}

}  // namespace

Status TransactionDbImpl::RecoverPrepared() {
  for (const PreparedSection& section : context_.engine->PreparedSections()) {
    auto transaction = std::make_unique<PessimisticTransaction>(
        this, WriteOptions(), TransactionOptions());
    Status status = transaction->Recover(section.name, section.updates);
    if (!status.ok()) return status.Annotate("prepared transaction");
    const MutexLock lock(&names_mutex_);
    recovered_.insert(transaction.release());
  }
  return Status::OK();
}

Status TransactionDB::WrapDB(std::shared_ptr<DB> db,
                             const TransactionDBOptions& transaction_options,
                             std::unique_ptr<TransactionDB>* wrapped) {
  wrapped->reset();
  Status status = CheckTransactionOptions(transaction_options);
  if (!status.ok()) return status;
  if (db == nullptr) return Status::InvalidArgument("WrapDB", "db is null");
  const ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  DBImpl* const engine =
      family == nullptr ? nullptr : FamilyHandle::EngineOf(*family);
  if (engine == nullptr) {
    return Status::InvalidArgument("WrapDB", "db was not opened by DB::Open");
  }
  auto created = std::make_unique<TransactionDbImpl>(std::move(db), engine,
                                                     transaction_options);
  status = created->RecoverPrepared();
  if (status.ok()) *wrapped = std::move(created);
  return status;
}

Status TransactionDB::Open(const Options& options,
                           const TransactionDBOptions& transaction_options,
                           const std::string& path,
                           std::unique_ptr<TransactionDB>* db) {
  db->reset();
  std::unique_ptr<DB> opened;
  Status status = CheckTransactionOptions(transaction_options);
  if (status.ok()) status = DB::Open(options, path, &opened);
  if (!status.ok()) return status;
  return WrapDB(std::move(opened), transaction_options, db);
}

Status TransactionDB::Open(const DBOptions& options,
                           const TransactionDBOptions& transaction_options,
                           const std::string& path,
                           const std::vector<ColumnFamilyDescriptor>& families,
                           std::vector<ColumnFamilyHandle*>* handles,
                           std::unique_ptr<TransactionDB>* db) {
  db->reset();
  handles->clear();
  std::unique_ptr<DB> opened;
  Status status = CheckTransactionOptions(transaction_options);
  if (status.ok()) {
    status = DB::Open(options, path, families, handles, &opened);
  }
  if (status.ok()) status = WrapDB(std::move(opened), transaction_options, db);
  if (status.ok()) return status;
  for (ColumnFamilyHandle* const handle : *handles) delete handle;
  handles->clear();
  return status;
}

}  // namespace varve
