// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A bank: transactions move money between accounts in two families, and write
// down that they did. After a crash, the balances must be what these notes say,
// and each transaction must be where its last call left it: nowhere, prepared,
// or committed once.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::test {

enum class BankKind : uint8_t { kOptimistic, kLocked, kTwoPhase };

// The last known state of a transfer. The states that end with -ing
// were begun, and nothing has returned.
enum class Fate : uint8_t {
  kNone,
  kPreparing,
  kPrepared,
  kCommitting,          // In one phase.
  kCommittingPrepared,  // In two.
  kCommitted,
  kRollingBack,
  kRolledBack,
  kUnsynced,  // A power cut may take it away, with all that followed.
};

// The last known state of each transfer. Can be in shared memory.
struct BankLedger {
  static constexpr int kTellers = 4;
  static constexpr int kMost = 20000;  // Transfers of a teller.

  std::atomic<Fate> fates[kTellers][kMost];
  std::atomic<int> begun[kTellers];

  int CountBegun() const {
    int count = 0;
    for (const auto& each : begun) count += each.load();
    return count;
  }
};

class BankDb {
 public:
  static constexpr int kAccounts = 10;
  static constexpr int64_t kInitial = 1000;

  explicit BankDb(BankKind kind) : kind_(kind) {}
  ~BankDb() { Close(); }

  Status TryOpen(Options options, const std::string& path) {
    Close();
    options.create_missing_column_families = true;
    const std::vector<ColumnFamilyDescriptor> families = {
        {kDefaultColumnFamilyName, options}, {"other", options}};
    std::vector<ColumnFamilyHandle*> handles;
    Status status;
    if (kind_ == BankKind::kOptimistic) {
      status = OptimisticTransactionDB::Open(options, path, families, &handles,
                                             &optimistic_);
    } else {
      TransactionDBOptions locks;
      locks.transaction_lock_timeout = -1;
      status = TransactionDB::Open(options, locks, path, families, &handles,
                                   &locking_);
    }
    for (ColumnFamilyHandle* handle : handles) handles_.emplace_back(handle);
    return status;
  }
  void Close() {
    handles_.clear();
    optimistic_.reset();
    locking_.reset();
  }

  BankKind kind() const { return kind_; }
  TransactionDB* locking() const { return locking_.get(); }
  DB* db() const {
    return kind_ == BankKind::kOptimistic ? static_cast<DB*>(optimistic_.get())
                                          : locking_.get();
  }
  ColumnFamilyHandle* FamilyOf(int account) const {
    return handles_[static_cast<size_t>(account % 2)].get();
  }
  static std::string NameOf(int account) {
    return "account" + std::to_string(account);
  }
  static std::string NameOf(int teller, int number) {
    return "transfer" + std::to_string(teller) + "." + std::to_string(number);
  }

  Transaction* Begin(const WriteOptions& options, Transaction* old,
                     bool waits) {
    if (kind_ == BankKind::kOptimistic) {
      return optimistic_->BeginTransaction(options, {}, old);
    }
    TransactionOptions locks;
    locks.deadlock_detect = true;
    if (!waits) locks.lock_timeout = 0;
    return locking_->BeginTransaction(options, locks, old);
  }

 private:
  const BankKind kind_;
  std::unique_ptr<OptimisticTransactionDB> optimistic_;
  std::unique_ptr<TransactionDB> locking_;
  std::vector<std::unique_ptr<ColumnFamilyHandle>> handles_;
};

// Makes one transfer after the other. The caller says when each step is.
// Thread-safety: owned by one thread.
class BankTeller {
 public:
  // With `unsynced`, some transfers are not synced.
  BankTeller(BankDb* bank, BankLedger* ledger, int teller, uint64_t seed,
             bool waits, bool unsynced)
      : bank_(*bank),
        ledger_(*ledger),
        teller_(teller),
        rng_(seed),
        waits_(waits),
        unsynced_(unsynced) {}

  bool is_idle() const { return step_ == 0; }
  bool is_full() const {
    return ledger_.begun[teller_].load() == BankLedger::kMost;
  }

  // Returns an error that is no conflict: the power is cut.
  Status Step() {
    Status status;
    switch (step_) {
      case 0:
        Begin();
        break;
      case 1:
        status = Read(from_, &from_balance_);
        break;
      case 2:
        status = Read(to_, &to_balance_);
        break;
      case 3:
        status = Write();
        break;
      case 4:
        status = Prepare();
        break;
      default:
        if (rest_ > 0) {
          --rest_;
          return status;
        }
        status = End();
        step_ = -1;
        break;
    }
    ++step_;
    if (status.IsBusy() || status.IsTimedOut()) {
      SetFate(Fate::kRolledBack);
      step_ = 0;
      return transaction_->Rollback();
    }
    return status;
  }
  // Does not settle what is prepared.
  void Abandon() { transaction_.reset(); }

 private:
  void SetFate(Fate fate) {
    if (synced_) ledger_.fates[teller_][number_].store(fate);
  }

  void Begin() {
    WriteOptions options;
    synced_ = !unsynced_ || rng_.OneIn(2);
    options.sync = synced_;
    Transaction* const old = transaction_.release();
    transaction_.reset(bank_.Begin(options, old, waits_));
    number_ = ledger_.begun[teller_].load();
    ASSERT_LT(number_, BankLedger::kMost);
    from_ = static_cast<int>(rng_.Below(BankDb::kAccounts));
    to_ = static_cast<int>(rng_.Below(BankDb::kAccounts - 1));
    if (to_ == from_) to_ = BankDb::kAccounts - 1;
    amount_ = rng_.Between(1, 50);
    if (!synced_) ledger_.fates[teller_][number_].store(Fate::kUnsynced);
    ledger_.begun[teller_].store(number_ + 1);
  }
  Status Read(int account, int64_t* balance) {
    std::string value;
    const Status status = transaction_->GetForUpdate(
        {}, bank_.FamilyOf(account), BankDb::NameOf(account), &value);
    *balance = strtoll(value.c_str(), nullptr, 10);
    return status;
  }
  Status Write() {
    const auto put = [&](int account, int64_t balance) {
      return transaction_->Put(bank_.FamilyOf(account), BankDb::NameOf(account),
                               std::to_string(balance));
    };
    Status status = put(from_, from_balance_ - amount_);
    if (status.ok()) status = put(to_, to_balance_ + amount_);
    if (!status.ok()) return status;
    const std::string note = std::to_string(from_) + " " + std::to_string(to_) +
                             " " + std::to_string(amount_) + " " +
                             std::string(rng_.Below(200), 'x');
    return transaction_->Put(bank_.FamilyOf(number_),
                             BankDb::NameOf(teller_, number_), note);
  }
  Status Prepare() {
    is_prepared_ = false;
    if (bank_.kind() != BankKind::kTwoPhase || rng_.OneIn(4)) {
      return Status::OK();
    }
    Status status = transaction_->SetName(BankDb::NameOf(teller_, number_));
    if (!status.ok()) return status;
    SetFate(Fate::kPreparing);
    status = transaction_->Prepare();
    if (!status.ok()) return status;
    SetFate(Fate::kPrepared);
    is_prepared_ = true;
    // Some stay prepared while others fill the logs.
    if (rng_.OneIn(10)) rest_ = rng_.Below(300);
    return status;
  }
  Status End() {
    if (rng_.OneIn(8)) {
      SetFate(Fate::kRollingBack);
      const Status status = transaction_->Rollback();
      if (status.ok()) SetFate(Fate::kRolledBack);
      return status;
    }
    SetFate(is_prepared_ ? Fate::kCommittingPrepared : Fate::kCommitting);
    const Status status = transaction_->Commit();
    if (status.ok()) SetFate(Fate::kCommitted);
    return status;
  }

  BankDb& bank_;
  BankLedger& ledger_;
  const int teller_;
  Rng rng_;
  const bool waits_;
  const bool unsynced_;
  std::unique_ptr<Transaction> transaction_;
  int step_ = 0;
  int number_ = 0;
  bool synced_ = true;
  bool is_prepared_ = false;
  uint64_t rest_ = 0;  // Steps to skip.
  int from_ = 0;
  int to_ = 0;
  int64_t from_balance_ = 0;
  int64_t to_balance_ = 0;
  int64_t amount_ = 0;
};

// Checks a bank after a crash or at its end.
class BankAudit {
 public:
  BankAudit(BankDb* bank, BankLedger* ledger)
      : bank_(*bank), ledger_(*ledger) {}

  static void OpenAccounts(BankDb* bank) {
    for (int i = 0; i < BankDb::kAccounts; ++i) {
      ASSERT_TRUE(Ok(bank->db()->Put({.sync = true}, bank->FamilyOf(i),
                                     BankDb::NameOf(i),
                                     std::to_string(BankDb::kInitial))));
    }
  }

  // Checks all, settles what is prepared, and checks again.
  void Check(Rng* rng) {
    std::set<std::string> prepared;
    std::vector<Transaction*> found;
    if (bank_.locking() != nullptr) {
      bank_.locking()->GetAllPreparedTransactions(&found);
    }
    std::vector<std::unique_ptr<Transaction>> owned(found.begin(), found.end());
    for (const auto& each : owned) {
      EXPECT_TRUE(prepared.insert(each->GetName()).second) << each->GetName();
    }
    ASSERT_NO_FATAL_FAILURE(CheckBalances());
    ASSERT_NO_FATAL_FAILURE(CheckFates(prepared));
    settled_ += owned.size();
    for (const auto& each : owned) {
      EXPECT_EQ(each->GetState(), Transaction::PREPARED);
      const bool commits = rng->OneIn(2);
      each->SetWriteOptions({.sync = true});
      EXPECT_TRUE(Ok(commits ? each->Commit() : each->Rollback()));
      int teller = 0;
      int number = 0;
      ASSERT_EQ(
          sscanf(each->GetName().c_str(), "transfer%d.%d", &teller, &number),
          2);
      ledger_.fates[teller][number].store(commits ? Fate::kCommitted
                                                  : Fate::kRolledBack);
    }
    owned.clear();
    ASSERT_NO_FATAL_FAILURE(CheckBalances());
    ASSERT_NO_FATAL_FAILURE(CheckFates({}));
    KeepFates();
  }
  uint64_t settled() const { return settled_; }

 private:
  // Each balance is what the notes of transfers make of it.
  void CheckBalances() {
    notes_.clear();
    std::map<int, int64_t> expected;
    std::map<int, int64_t> balances;
    for (int i = 0; i < BankDb::kAccounts; ++i) expected[i] = BankDb::kInitial;
    for (int family = 0; family < 2; ++family) {
      const auto it = bank_.db()->NewIterator({}, bank_.FamilyOf(family));
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        const std::string key = it->key().ToString();
        const std::string value = it->value().ToString();
        int from = 0;
        int to = 0;
        int amount = 0;
        int account = 0;
        if (sscanf(key.c_str(), "account%d", &account) == 1) {
          balances[account] = strtoll(value.c_str(), nullptr, 10);
          continue;
        }
        ASSERT_EQ(sscanf(value.c_str(), "%d %d %d", &from, &to, &amount), 3)
            << key << " = " << value;
        notes_.insert(key);
        expected[from] -= amount;
        expected[to] += amount;
      }
      ASSERT_TRUE(Ok(it->status()));
    }
    ASSERT_EQ(balances, expected);
  }

  void CheckFates(const std::set<std::string>& prepared) {
    size_t known = 0;
    for (int teller = 0; teller < BankLedger::kTellers; ++teller) {
      for (int i = 0; i < ledger_.begun[teller].load(); ++i) {
        const std::string name = BankDb::NameOf(teller, i);
        const bool is_applied = notes_.count(name) != 0;
        const bool is_prepared = prepared.count(name) != 0;
        known += is_prepared ? 1 : 0;
        const Fate fate = ledger_.fates[teller][i].load();
        ASSERT_TRUE(IsAllowed(fate, is_applied, is_prepared, prepared.empty()))
            << name << ", fate " << static_cast<int>(fate)
            << (is_applied ? ", is applied" : ", is not applied")
            << (is_prepared ? ", is prepared" : ", is not prepared");
      }
    }
    EXPECT_EQ(known, prepared.size());
  }
  static bool IsAllowed(Fate fate, bool applied, bool prepared, bool settled) {
    if (applied && prepared) return false;
    switch (fate) {
      case Fate::kNone:
        return !applied && !prepared;
      case Fate::kPreparing:
      case Fate::kRollingBack:
        return !applied;
      case Fate::kPrepared:
        return prepared;
      case Fate::kCommitting:
        return !prepared;
      case Fate::kCommittingPrepared:
        return applied || prepared || settled;
      case Fate::kCommitted:
        return applied;
      case Fate::kRolledBack:
        return !applied && !prepared;
      case Fate::kUnsynced:
        return true;
    }
    return false;
  }
  // After a check, what has survived is durable.
  void KeepFates() {
    for (int teller = 0; teller < BankLedger::kTellers; ++teller) {
      for (int i = 0; i < ledger_.begun[teller].load(); ++i) {
        const bool is_applied = notes_.count(BankDb::NameOf(teller, i)) != 0;
        ledger_.fates[teller][i].store(is_applied ? Fate::kCommitted
                                                  : Fate::kRolledBack);
      }
    }
  }

  BankDb& bank_;
  BankLedger& ledger_;
  std::set<std::string> notes_;
  uint64_t settled_ = 0;
};

}  // namespace varve::test
