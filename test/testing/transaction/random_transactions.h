// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Random transactions whose reads and writes are recorded, for the checker of
// histories (history_checker.h). A key of the history is "<family>/<key>". In
// each family there are lists, "k0" to "k7", to which transactions append, and
// rows, "r<slot>.<number>", which are put once and may be deleted once.

#include <sched.h>

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/transaction/history_checker.h"
#include "varve/column_family.h"
#include "varve/merge_operator.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::test {

// How transactions use the database, and what isolation that must give them.
struct TransactionMode {
  const char* name;
  bool optimistic;
  bool uses_snapshot;
  bool serializable;
  bool reads_for_update;  // All reads; there are no scans.
  Isolation isolation;
};

inline constexpr TransactionMode kTransactionModes[] = {
    {"OptimisticSnapshot", true, true, false, false, Isolation::kSnapshot},
    {"OptimisticSerializable", true, false, true, false,
     Isolation::kSerializable},
    {"OptimisticCommitted", true, false, false, false,
     Isolation::kReadCommitted},
    {"OptimisticForUpdate", true, false, false, true, Isolation::kSerializable},
    {"LockedSnapshot", false, true, false, false, Isolation::kSnapshot},
    {"LockedCommitted", false, false, false, false, Isolation::kReadCommitted},
    {"LockedForUpdate", false, false, false, true, Isolation::kSerializable},
};

inline void PrintTo(const TransactionMode& mode, std::ostream* out) {
  *out << mode.name;
}

// A database with families "a", "b" and "t" beside its default one, which is
// for no history. "t" is dropped and created again.
class TransactionalDb {
 public:
  explicit TransactionalDb(const TransactionMode& mode) : mode_(mode) {}
  ~TransactionalDb() { Close(); }

  void Open(Options options, const std::string& path) {
    options.create_missing_column_families = true;
    options.merge_operator = NewStringAppendOperator();
    family_options_ = options;
    const std::vector<ColumnFamilyDescriptor> families = {
        {kDefaultColumnFamilyName, options},
        {"a", options},
        {"b", options},
        {"t", options}};
    std::vector<ColumnFamilyHandle*> handles;
    if (mode_.optimistic) {
      ASSERT_TRUE(Ok(OptimisticTransactionDB::Open(options, path, families,
                                                   &handles, &optimistic_)));
    } else {
      TransactionDBOptions locks;
      // Deadlocks are found, and all others end.
      locks.transaction_lock_timeout = -1;
      locks.default_lock_timeout = -1;
      ASSERT_TRUE(Ok(TransactionDB::Open(options, locks, path, families,
                                         &handles, &locking_)));
    }
    for (ColumnFamilyHandle* handle : handles) handles_.emplace_back(handle);
  }
  void Close() {
    handles_.clear();
    optimistic_.reset();
    locking_.reset();
  }

  const TransactionMode& mode() const { return mode_; }
  DB* db() const {
    return mode_.optimistic ? static_cast<DB*>(optimistic_.get())
                            : locking_.get();
  }
  static constexpr char kFamilies[] = {'a', 'b'};
  ColumnFamilyHandle* At(char family) const {
    return handles_[family == 'a' ? 1 : 2].get();
  }

  // With `waits`, a lock may be waited for.
  Transaction* Begin(Transaction* old, bool waits) {
    if (mode_.optimistic) {
      OptimisticTransactionOptions options;
      options.set_snapshot = mode_.uses_snapshot;
      options.isolation = mode_.serializable
                              ? TransactionIsolation::kSerializable
                              : TransactionIsolation::kSnapshot;
      return optimistic_->BeginTransaction({}, options, old);
    }
    TransactionOptions options;
    options.set_snapshot = mode_.uses_snapshot;
    options.deadlock_detect = true;
    options.deadlock_detect_depth = 1000;
    if (!waits) options.lock_timeout = 0;
    return locking_->BeginTransaction({}, options, old);
  }

  // ---- Family "t" ----

  std::shared_ptr<ColumnFamilyHandle> Temporary() {
    std::lock_guard<std::mutex> lock(mu_);
    return handles_[3];
  }
  void ReplaceTemporary() {
    ASSERT_TRUE(Ok(db()->DropColumnFamily(Temporary().get())));
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(Ok(db()->CreateColumnFamily(family_options_, "t", &handle)));
    std::lock_guard<std::mutex> lock(mu_);
    handles_[3].reset(handle);
  }

 private:
  const TransactionMode mode_;
  ColumnFamilyOptions family_options_;
  std::unique_ptr<OptimisticTransactionDB> optimistic_;
  std::unique_ptr<TransactionDB> locking_;
  std::mutex mu_;  // Guards handles_[3].
  std::vector<std::shared_ptr<ColumnFamilyHandle>> handles_;
};

// Begins one transaction after the other. The caller chooses when each takes
// its next step, so that a test can have many of them on one thread.
// Thread-safety: owned by one thread.
class RandomTransactions {
 public:
  // With `waits`, a step may wait for other threads' transactions.
  RandomTransactions(TransactionalDb* db, HistoryClock* clock, uint64_t seed,
                     bool waits)
      : db_(*db), clock_(*clock), rng_(seed), waits_(waits) {}

  bool is_idle() const { return steps_left_ == 0; }
  History& history() { return history_; }
  uint64_t conflicts() const { return conflicts_; }

  void Step() {
    if (steps_left_ == 0) return Begin();
    if (--steps_left_ == 0) return Commit();
    Status status = TakeStep();
    if (!status.ok()) End(status);
  }
  // Ends the transaction that is going on.
  void Finish() {
    if (!is_idle()) Commit();
    transaction_.reset();
  }

  // Writes without a transaction, which is recorded as one.
  void WritePlainly() {
    HistoryTransaction plain;
    plain.begin = plain.commit = clock_.Next();
    WriteBatch batch;
    // A batch of two keys could wait for transactions that wait for it.
    const int count = db_.mode().optimistic ? rng_.Between(1, 3) : 1;
    for (int i = 0; i < count; ++i) {
      const char family = RandomFamily();
      const int element = clock_.NextElement();
      if (rng_.OneIn(4)) {
        const std::string key = NewRow();
        batch.Put(db_.At(family), key, std::to_string(element));
        plain.steps.push_back(HistoryStep::Append(Name(family, key), element));
      } else {
        const std::string key = RandomList();
        batch.Merge(db_.At(family), key, std::to_string(element));
        plain.steps.push_back(HistoryStep::Append(Name(family, key), element));
      }
    }
    const Status status = db_.db()->Write({}, &batch);
    EXPECT_TRUE(Ok(status));
    plain.end = clock_.Next();
    history_.push_back(std::move(plain));
  }

  // Reads all keys.
  void ReadAll() {
    Begin();
    for (const char family : TransactionalDb::kFamilies) {
      std::map<std::string, ElementList> found;
      const auto it = db_.db()->NewIterator({}, db_.At(family));
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        found[Name(family, it->key().ToString())] =
            ListOf(it->value().ToString());
      }
      EXPECT_TRUE(Ok(it->status()));
      Record(HistoryStep::Scan(Name(family, ""), Name(family, "z"), found));
    }
    Commit();
    transaction_.reset();
  }

 private:
  static std::string Name(char family, const std::string& key) {
    return std::string(1, family) + "/" + key;
  }
  char RandomFamily() { return rng_.Pick({'a', 'b'}); }
  std::string RandomList() { return "k" + std::to_string(rng_.Below(8)); }
  std::string RandomSlot() { return "r" + std::to_string(rng_.Below(3)); }
  std::string NewRow() {
    return RandomSlot() + "." + std::to_string(clock_.NextElement());
  }
  void Record(HistoryStep step) { recorded_.steps.push_back(std::move(step)); }

  void Begin() {
    steps_left_ = rng_.Between(2, 7);
    save_points_.clear();
    recorded_ = {};
    recorded_.begin = clock_.Next();
    Transaction* const old = transaction_.release();
    transaction_.reset(db_.Begin(old, waits_));
  }

  void Commit() {
    steps_left_ = 0;
    if (!db_.mode().optimistic && rng_.OneIn(3)) {
      Status prepared = transaction_->SetName(
          "transaction" + std::to_string(clock_.NextElement()));
      if (prepared.ok()) prepared = transaction_->Prepare();
      if (!prepared.ok()) return End(prepared);
    }
    if (rng_.OneIn(10)) return End(Status::Aborted("by itself"));
    recorded_.commit = clock_.Next();
    const Status status = transaction_->Commit();
    recorded_.end = clock_.Next();
    if (!status.ok()) return End(status);
    history_.push_back(std::move(recorded_));
  }
  // Gives the transaction up.
  void End(const Status& status) {
    steps_left_ = 0;
    // Dropped families are InvalidArgument.
    EXPECT_TRUE(status.IsBusy() || status.IsTimedOut() || status.IsAborted() ||
                (used_temporary_ && status.IsInvalidArgument()))
        << status.ToString();
    if (status.IsBusy()) ++conflicts_;
    EXPECT_TRUE(Ok(transaction_->Rollback()));
    recorded_.outcome = HistoryTransaction::Outcome::kAborted;
    if (recorded_.commit == UINT64_MAX) recorded_.commit = clock_.Next();
    recorded_.end = clock_.Next();
    history_.push_back(std::move(recorded_));
    used_temporary_ = false;
  }

  Status TakeStep() {
    switch (rng_.Below(16)) {
      case 0:
        save_points_.push_back(recorded_.steps.size());
        transaction_->SetSavePoint();
        return Status::OK();
      case 1:
        return LeaveSavePoint();
      case 2:
      case 3:
        return PutRow();
      case 4:
        return DeleteRow();
      case 5:
      case 6:
      case 7:
        return Scan(nullptr);
      case 8:
      case 9:
        return Read();
      case 10:
        return ReadSeveral();
      case 11:
        return WriteTemporary();
      case 12:
      case 13:
        return MergeIntoList();
      default:
        return PutList();
    }
  }
  Status LeaveSavePoint() {
    if (save_points_.empty()) return Status::OK();
    const bool rolls_back = rng_.OneIn(2);
    const Status status = rolls_back ? transaction_->RollbackToSavePoint()
                                     : transaction_->PopSavePoint();
    EXPECT_TRUE(Ok(status));
    // The reads since then are not checked any more, either.
    if (rolls_back) recorded_.steps.resize(save_points_.back());
    save_points_.pop_back();
    return Status::OK();
  }

  // ---- Reads ----------------------------------------------------------------

  ReadOptions MakeReadOptions() {
    ReadOptions options;
    if (db_.mode().uses_snapshot) {
      options.snapshot = transaction_->GetSnapshot();
    }
    return options;
  }
  // The value, or nothing.
  Status Read(char family, const std::string& key, bool for_update,
              std::string* value) {
    value->clear();
    const ReadOptions options = MakeReadOptions();
    const Status status =
        for_update ? transaction_->GetForUpdate(options, db_.At(family), key,
                                                value, rng_.OneIn(2))
                   : transaction_->Get(options, db_.At(family), key, value);
    if (!status.ok() && !status.IsNotFound()) return status;
    Record(HistoryStep::Read(Name(family, key), ListOf(*value)));
    return Status::OK();
  }
  Status Read() {
    std::string value;
    return Read(RandomFamily(), RandomList(),
                db_.mode().reads_for_update || rng_.OneIn(3), &value);
  }
  Status ReadSeveral() {
    if (db_.mode().reads_for_update) return Read();
    std::vector<std::string> names;
    std::vector<Slice> keys;
    for (int i = 0; i < 3; ++i) names.push_back(RandomList());
    for (const std::string& name : names) keys.emplace_back(name);
    const char family = RandomFamily();
    std::vector<std::string> values(3);
    std::vector<Status> statuses(3);
    if (rng_.OneIn(2)) {
      statuses = transaction_->MultiGet(
          MakeReadOptions(), std::vector(3, db_.At(family)), keys, &values);
    } else {
      PinnableSlice pinned[3];
      transaction_->MultiGet(MakeReadOptions(), db_.At(family), 3, keys.data(),
                             pinned, statuses.data());
      for (size_t i = 0; i < 3; ++i) values[i] = pinned[i].ToString();
    }
    for (size_t i = 0; i < 3; ++i) {
      if (!statuses[i].ok() && !statuses[i].IsNotFound()) return statuses[i];
      Record(HistoryStep::Read(Name(family, names[i]),
                               ListOf(statuses[i].ok() ? values[i] : "")));
    }
    return Status::OK();
  }

  struct Range {
    char family;
    std::string begin;
    std::string end;
  };
  Range RandomRange() {
    std::string begin = rng_.OneIn(3) ? RandomSlot() : RandomList();
    std::string end = rng_.OneIn(3) ? RandomSlot() : RandomList();
    if (end < begin) std::swap(begin, end);
    return {RandomFamily(), begin, rng_.OneIn(4) ? end + "0" : end};
  }
  // Walks over a range, or a part of it, and records what was walked over.
  Status Scan(const Range* all_of, std::vector<std::string>* rows = nullptr) {
    if (db_.mode().reads_for_update) return Read();
    const Range range = all_of != nullptr ? *all_of : RandomRange();
    if (range.begin == range.end) return Status::OK();
    size_t left = all_of != nullptr || rng_.OneIn(2) ? 1000 : rng_.Below(4);
    const Slice lower = range.begin;
    const Slice upper = range.end;
    ReadOptions options = MakeReadOptions();
    if (rng_.OneIn(3)) options.iterate_lower_bound = &lower;
    if (rng_.OneIn(3)) options.iterate_upper_bound = &upper;
    const auto it = transaction_->GetIterator(options, db_.At(range.family));
    std::map<std::string, ElementList> found;
    const auto take = [&] {
      const std::string key = it->key().ToString();
      found[Name(range.family, key)] = ListOf(it->value().ToString());
      if (rows != nullptr) rows->push_back(key);
    };
    Range walked = range;
    switch (all_of != nullptr ? rng_.Below(2) : rng_.Below(3)) {
      case 0:
        it->Seek(range.begin);
        WalkForward(it.get(), left, take, &walked.end);
        break;
      case 1:
        it->SeekForPrev(range.end);
        if (it->Valid() && it->key() == upper) it->Prev();
        WalkBackward(it.get(), left, take, &walked.begin);
        break;
      default:
        WalkToAndFro(it.get(), left, take, &walked);
        break;
    }
    if (!it->status().ok()) return it->status();
    Record(HistoryStep::Scan(Name(range.family, walked.begin),
                             Name(range.family, walked.end), found));
    return Status::OK();
  }
  // Take entries up to *end or down to *begin, which become the last key taken
  // if there is one too many.
  template <typename Take>
  static void WalkForward(Iterator* it, size_t left, const Take& take,
                          std::string* end) {
    for (; it->Valid() && it->key().compare(*end) < 0; it->Next()) {
      take();
      if (left-- > 0) continue;
      *end = it->key().ToString() + '\0';
      return;
    }
  }
  template <typename Take>
  static void WalkBackward(Iterator* it, size_t left, const Take& take,
                           std::string* begin) {
    for (; it->Valid() && it->key().compare(*begin) >= 0; it->Prev()) {
      take();
      if (left-- > 0) continue;
      *begin = it->key().ToString();
      return;
    }
  }
  // Begins within the range, and turns at an entry.
  template <typename Take>
  void WalkToAndFro(Iterator* it, size_t left, const Take& take, Range* range) {
    std::string middle = RandomList();
    if (middle < range->begin || middle >= range->end) middle = range->begin;
    it->Seek(middle);
    if (!it->Valid() || it->key().compare(range->end) >= 0) {
      range->begin = middle;
      return;
    }
    WalkForward(it, rng_.Below(3), take, &range->end);
    if (!it->Valid() || it->key().compare(range->end) >= 0) {
      range->begin = middle;
      return;
    }
    WalkBackward(it, left, take, &range->begin);
    range->begin = std::min(range->begin, middle);
  }

  // ---- Writes ---------------------------------------------------------------

  // The element is recorded only if it was written.
  Status RecordAppend(const Status& status, char family, const std::string& key,
                      int element) {
    if (status.ok()) Record(HistoryStep::Append(Name(family, key), element));
    return status;
  }
  Status MergeIntoList() {
    const char family = RandomFamily();
    const std::string key = RandomList();
    const int element = clock_.NextElement();
    return RecordAppend(
        transaction_->Merge(db_.At(family), key, std::to_string(element)),
        family, key, element);
  }
  // Reads the list, and puts it with one element more.
  Status PutList() {
    const char family = RandomFamily();
    const std::string key = RandomList();
    std::string value;
    // Only a snapshot or a lock tells a change since this read.
    const bool for_update =
        (!db_.mode().uses_snapshot && !db_.mode().serializable) ||
        rng_.OneIn(2);
    Status status = Read(family, key, for_update, &value);
    if (!status.ok()) return status;
    const int element = clock_.NextElement();
    if (!value.empty()) value += ',';
    value += std::to_string(element);
    if (rng_.OneIn(4)) status = transaction_->Delete(db_.At(family), key);
    if (status.ok() && db_.mode().optimistic && rng_.OneIn(6)) {
      status = transaction_->DeleteRange(db_.At(family), key, key + '\0');
    }
    if (status.ok()) {
      status = transaction_->Put(db_.At(family), key, value);
    }
    return RecordAppend(status, family, key, element);
  }
  Status PutRow() {
    const char family = RandomFamily();
    const std::string key = NewRow();
    const int element = clock_.NextElement();
    return RecordAppend(
        transaction_->Put(db_.At(family), key, std::to_string(element)), family,
        key, element);
  }
  Status DeleteRow() {
    if (db_.mode().reads_for_update) return Read();
    const std::string slot = RandomSlot();
    const Range range = {RandomFamily(), slot, slot + "/"};
    std::vector<std::string> rows;
    Status status = Scan(&range, &rows);
    if (!status.ok() || rows.empty()) return status;
    ColumnFamilyHandle* const family = db_.At(range.family);
    if (db_.mode().optimistic && rng_.OneIn(3)) {
      status = transaction_->DeleteRange(family, range.begin, range.end);
      if (status.ok()) {
        Record(HistoryStep::DeleteRange(Name(range.family, range.begin),
                                        Name(range.family, range.end)));
      }
      return status;
    }
    const std::string& row = rows[rng_.Below(rows.size())];
    status = rng_.OneIn(2) ? transaction_->Delete(family, row)
                           : transaction_->SingleDelete(family, row);
    if (status.ok()) {
      Record(HistoryStep::Delete(Name(range.family, row)));
    }
    return status;
  }
  Status WriteTemporary() {
    if (!rng_.OneIn(4)) return MergeIntoList();
    used_temporary_ = true;
    const auto family = db_.Temporary();
    return transaction_->Put(family.get(), RandomList(), "value");
  }

  TransactionalDb& db_;
  HistoryClock& clock_;
  Rng rng_;
  const bool waits_;
  std::unique_ptr<Transaction> transaction_;
  int steps_left_ = 0;
  bool used_temporary_ = false;
  std::vector<size_t> save_points_;
  HistoryTransaction recorded_;
  History history_;
  uint64_t conflicts_ = 0;
};

// A flush, a compaction, or a drop of family "t".
inline void ChangeTables(TransactionalDb* db, Rng* rng) {
  const char family = rng->Pick({'a', 'b'});
  switch (rng->Below(4)) {
    case 0:
      ASSERT_TRUE(Ok(db->db()->Flush({}, db->At(family))));
      break;
    case 1:
      ASSERT_TRUE(
          Ok(db->db()->CompactRange({.rewrite_bottommost_level = rng->OneIn(2)},
                                    db->At(family), nullptr, nullptr)));
      break;
    case 2:
      ASSERT_NO_FATAL_FAILURE(db->ReplaceTemporary());
      break;
    default: {
      FlushOptions no_wait{.wait = false};
      ASSERT_TRUE(Ok(db->db()->Flush(no_wait, db->At(family))));
    }
  }
}

// Fails if the histories, and a last transaction that reads all keys, have an
// anomaly that the mode forbids.
inline ::testing::AssertionResult IsIsolated(TransactionalDb* db,
                                             HistoryClock* clock,
                                             std::vector<History> histories) {
  RandomTransactions last(db, clock, 1, false);
  last.ReadAll();
  histories.push_back(std::move(last.history()));
  History all;
  for (History& each : histories) {
    std::move(each.begin(), each.end(), std::back_inserter(all));
  }
  const TransactionMode& mode = db->mode();
  std::string violations = ViolationsOf(mode.isolation, CheckHistory(all));
  if (mode.uses_snapshot || mode.serializable) {
    violations += ViolationsOf(Isolation::kSnapshot,
                               CheckHistory(all, {.aborted_reads = true}));
  }
  const auto committed =
      std::count_if(all.begin(), all.end(), [](const HistoryTransaction& each) {
        return each.outcome == HistoryTransaction::Outcome::kCommitted;
      });
  printf("%zu transactions, %td committed, of %s\n", all.size(), committed,
         mode.name);
  if (violations.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << violations;
}

}  // namespace varve::test
