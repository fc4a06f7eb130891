// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Calls of transactions, and what they return, as texts: so that a model, Varve
// and RocksDB can be compared. The model keeps all versions of all keys.

#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/merge_operator.h"
#include "varve/optimistic_transaction_db.h"
#include "varve/transaction_db.h"

namespace varve::test {

struct TransactionCall {
  enum class Kind : uint8_t {
    // Of a transaction.
    kBegin,  // With `flag`, sets a snapshot.
    kPut,
    kMerge,
    kDelete,
    kGet,           // With `flag`, at the snapshot.
    kGetForUpdate,  // With `flag`, exclusive.
    kMultiGet,      // Of the key and its neighbor.
    kScan,          // With `flag`, at the snapshot.
    kScanBackward,
    kSeek,
    kSetSavePoint,
    kRollbackToSavePoint,
    kPrepare,
    kCommit,
    kRollback,
    // RocksDB's C interface lacks these.
    kPopSavePoint,
    kSetSnapshot,
    kClearSnapshot,
    kUndoGetForUpdate,
    kPutUntracked,
    kCounts,  // Updates by kind, and tracked keys.
    // Of the database.
    kPlainPut,
    kPlainMerge,
    kPlainDelete,
    kPlainGet,
    kFlush,
    kCompact,
    kReopen,  // Only what is prepared is left.
  };
  Kind kind = Kind::kCounts;
  size_t transaction = 0;
  size_t family = 0;
  std::string key;
  std::string value;
  bool flag = false;
};

inline std::string ToText(const TransactionCall& call) {
  constexpr const char* kNames[] = {"Begin",
                                    "Put",
                                    "Merge",
                                    "Delete",
                                    "Get",
                                    "GetForUpdate",
                                    "MultiGet",
                                    "Scan",
                                    "ScanBack",
                                    "Seek",
                                    "SetSavePoint",
                                    "RollbackToSavePoint",
                                    "Prepare",
                                    "Commit",
                                    "Rollback",
                                    "PopSavePoint",
                                    "SetSnapshot",
                                    "ClearSnapshot",
                                    "UndoGetForUpdate",
                                    "PutUntracked",
                                    "Counts",
                                    "PlainPut",
                                    "PlainMerge",
                                    "PlainDelete",
                                    "PlainGet",
                                    "Flush",
                                    "Compact",
                                    "Reopen"};
  return "T" + std::to_string(call.transaction) + " " +
         kNames[static_cast<size_t>(call.kind)] + " " +
         std::to_string(call.family) + "/" + call.key + " " + call.value +
         (call.flag ? " true" : "");
}

class TransactionCallee {
 public:
  static constexpr size_t kTransactions = 3;
  static constexpr size_t kFamilies = 2;

  virtual ~TransactionCallee() = default;
  // Returns "ok", a value, a list of entries, or the name of an error.
  virtual std::string Call(const TransactionCall& call) = 0;

  static std::string NameOf(size_t transaction) {
    return "transaction" + std::to_string(transaction);
  }
  // The key that kMultiGet reads beside another.
  static std::string NeighborOf(const std::string& key) { return key + "0"; }
};

// ---- The model --------------------------------------------------------------

class TransactionModel : public TransactionCallee {
 public:
  using Kind = TransactionCall::Kind;

  // `relocks`: what is prepared holds the locks of its keys after a recovery.
  // In RocksDB it holds none.
  TransactionModel(bool optimistic, bool relocks)
      : optimistic_(optimistic), relocks_(relocks) {}

  bool IsOpen(size_t i) const { return at_[i].open; }
  bool IsPrepared(size_t i) const { return at_[i].prepared; }
  // Whether the transaction can only be rolled back.
  bool HasFailed(size_t i) const { return at_[i].failed; }
  bool HasSnapshot(size_t i) const { return at_[i].snapshot.has_value(); }
  bool HasSavePoints(size_t i) const { return !at_[i].save_points.empty(); }
  bool HasShared(const TransactionCall& call) const {
    const auto& tracked = at_[call.transaction].tracked;
    const auto found = tracked.find({call.family, call.key});
    return found != tracked.end() && !found->second.exclusive;
  }

  std::string Call(const TransactionCall& call) override {
    Transaction& t = at_[call.transaction];
    const Place place = {call.family, call.key};
    switch (call.kind) {
      case Kind::kBegin:
        t = {};
        t.open = true;
        if (call.flag) t.snapshot = sequence_;
        return "ok";
      case Kind::kPut:
      case Kind::kMerge:
      case Kind::kDelete:
      case Kind::kPutUntracked:
        return Write(&t, call);
      case Kind::kGet:
        return ToText(Read(t, place, AsOf(t, call.flag)));
      case Kind::kGetForUpdate: {
        const std::string locked = Track(&t, place, call.flag, true, false);
        return locked != "ok" ? locked : ToText(Read(t, place, UINT64_MAX));
      }
      case Kind::kMultiGet:
        return ToText(Read(t, place, AsOf(t, call.flag))) + " " +
               ToText(Read(t, {call.family, NeighborOf(call.key)},
                           AsOf(t, call.flag)));
      case Kind::kScan:
      case Kind::kScanBackward:
        return Scan(t, call);
      case Kind::kSeek:
        return Seek(t, call);
      case Kind::kSetSavePoint:
        t.save_points.push_back({t.updates, t.tracked, t.counts});
        return "ok";
      case Kind::kRollbackToSavePoint:
        if (t.save_points.empty()) return "NotFound";
        t.updates = t.save_points.back().updates;
        t.tracked = t.save_points.back().tracked;
        t.counts = t.save_points.back().counts;
        t.save_points.pop_back();
        return "ok";
      case Kind::kPopSavePoint:
        if (t.save_points.empty()) return "NotFound";
        t.save_points.pop_back();
        return "ok";
      case Kind::kPrepare:
        t.prepared = true;
        return "ok";
      case Kind::kCommit:
        return Commit(&t);
      case Kind::kRollback:
        t = {};
        return "ok";
      case Kind::kSetSnapshot:
        t.snapshot = sequence_;
        return "ok";
      case Kind::kClearSnapshot:
        t.snapshot.reset();
        return "ok";
      case Kind::kUndoGetForUpdate:
        Undo(&t, place);
        return "ok";
      case Kind::kCounts:
        return std::to_string(t.counts.puts) + " " +
               std::to_string(t.counts.deletes) + " " +
               std::to_string(t.counts.merges) + " " +
               std::to_string(t.tracked.size());
      case Kind::kPlainPut:
      case Kind::kPlainMerge:
      case Kind::kPlainDelete:
        if (IsLocked(place)) return "TimedOut";
        Apply(call);
        return "ok";
      case Kind::kPlainGet:
        return ToText(ReadAt(place, UINT64_MAX));
      case Kind::kFlush:
      case Kind::kCompact:
        return "ok";
      case Kind::kReopen:
        for (Transaction& each : at_) {
          each = each.prepared ? AfterRecovery(each) : Transaction();
        }
        return "ok";
    }
    return "";
  }

 private:
  using Value = std::optional<std::string>;
  using Place = std::pair<size_t, std::string>;
  struct Tracked {
    uint64_t since = UINT64_MAX;
    bool exclusive = false;
    int reads = 0;
    int writes = 0;
  };
  struct Counts {
    int puts = 0;
    int deletes = 0;
    int merges = 0;
  };
  struct SavePoint {
    std::vector<TransactionCall> updates;
    std::map<Place, Tracked> tracked;
    Counts counts;
  };
  struct Transaction {
    bool open = false;
    bool prepared = false;
    bool failed = false;
    std::optional<uint64_t> snapshot;
    std::vector<TransactionCall> updates;
    std::map<Place, Tracked> tracked;
    Counts counts;
    std::vector<SavePoint> save_points;
  };

  static std::string ToText(const Value& value) {
    return value ? "=" + *value : "NotFound";
  }
  uint64_t AsOf(const Transaction& t, bool at_snapshot) const {
    return at_snapshot && t.snapshot ? *t.snapshot : UINT64_MAX;
  }

  Value ReadAt(const Place& place, uint64_t sequence) const {
    const auto found = versions_.find(place);
    if (found == versions_.end()) return std::nullopt;
    const auto after = found->second.upper_bound(sequence);
    return after == found->second.begin() ? std::nullopt
                                          : std::prev(after)->second;
  }
  Value Read(const Transaction& t, const Place& place, uint64_t sequence) {
    Value value = ReadAt(place, sequence);
    for (const TransactionCall& update : t.updates) {
      if (update.family != place.first || update.key != place.second) continue;
      value = After(value, update);
    }
    return value;
  }
  static Value After(const Value& value, const TransactionCall& update) {
    switch (update.kind) {
      case Kind::kMerge:
      case Kind::kPlainMerge:
        return value ? *value + "," + update.value : update.value;
      case Kind::kDelete:
      case Kind::kPlainDelete:
        return std::nullopt;
      default:
        return update.value;
    }
  }
  void Apply(const TransactionCall& update) {
    const Place place = {update.family, update.key};
    const Value value = After(ReadAt(place, UINT64_MAX), update);
    versions_[place][++sequence_] = value;
  }
  uint64_t LastChange(const Place& place) const {
    const auto found = versions_.find(place);
    return found == versions_.end() ? 0 : found->second.rbegin()->first;
  }

  std::map<std::string, std::string> Entries(const Transaction& t,
                                             const TransactionCall& call) {
    std::set<std::string> keys;
    for (const auto& [place, versions] : versions_) {
      if (place.first == call.family) keys.insert(place.second);
    }
    for (const TransactionCall& update : t.updates) {
      if (update.family == call.family) keys.insert(update.key);
    }
    std::map<std::string, std::string> entries;
    for (const std::string& key : keys) {
      const Value value = Read(t, {call.family, key}, AsOf(t, call.flag));
      if (value) entries[key] = *value;
    }
    return entries;
  }
  std::string Scan(const Transaction& t, const TransactionCall& call) {
    std::string text;
    for (const auto& [key, value] : Entries(t, call)) {
      const std::string entry = key + "=" + value + ";";
      text = call.kind == Kind::kScan ? text + entry : entry + text;
    }
    return text;
  }
  // The entry at or after the key, the one after that, and the first again.
  std::string Seek(const Transaction& t, const TransactionCall& call) {
    const auto entries = Entries(t, call);
    auto at = entries.lower_bound(call.key);
    if (at == entries.end()) return "end";
    std::string text = at->first + "=" + at->second + ";";
    const std::string first = text;
    if (++at == entries.end()) return text + "end";
    return text + at->first + "=" + at->second + ";" + first;
  }

  bool IsLocked(const Place& place) const {
    if (optimistic_) return false;
    return std::any_of(at_.begin(), at_.end(), [&](const Transaction& t) {
      return t.tracked.count(place) != 0;
    });
  }
  bool MayLock(const Transaction& t, const Place& place, bool exclusive) const {
    return std::all_of(at_.begin(), at_.end(), [&](const Transaction& other) {
      const auto found = other.tracked.find(place);
      return &other == &t || found == other.tracked.end() ||
             (!exclusive && !found->second.exclusive);
    });
  }
  // Returns "ok" or an error.
  std::string Track(Transaction* t, const Place& place, bool exclusive,
                    bool validate, bool writes) {
    const auto found = t->tracked.find(place);
    const bool had = found != t->tracked.end();
    uint64_t since = sequence_;
    if (t->snapshot && validate) since = *t->snapshot;
    if (!optimistic_) {
      if (!MayLock(*t, place, exclusive)) return "TimedOut";
      const bool was_checked = had && found->second.since <= since;
      if (t->snapshot && validate && !was_checked &&
          LastChange(place) > since) {
        t->failed = true;
        return "Busy";
      }
    }
    Tracked& tracked = t->tracked[place];
    tracked.since = std::min(tracked.since, since);
    tracked.exclusive |= exclusive;
    (writes ? tracked.writes : tracked.reads)++;
    return "ok";
  }
  // The log has the updates.
  Transaction AfterRecovery(const Transaction& prepared) const {
    Transaction t;
    t.open = true;
    t.prepared = true;
    t.updates = prepared.updates;
    for (const TransactionCall& update : t.updates) {
      if (relocks_) t.tracked[{update.family, update.key}].exclusive = true;
    }
    return t;
  }
  void Undo(Transaction* t, const Place& place) {
    const auto found = t->tracked.find(place);
    if (found == t->tracked.end()) return;
    Tracked& tracked = found->second;
    if (tracked.reads > 0) --tracked.reads;
    if (tracked.reads == 0 && tracked.writes == 0) t->tracked.erase(found);
  }
  std::string Write(Transaction* t, const TransactionCall& call) {
    const bool tracks = call.kind != Kind::kPutUntracked;
    if (tracks || !optimistic_) {
      const std::string locked =
          Track(t, {call.family, call.key}, true, tracks, true);
      if (locked != "ok") return locked;
    }
    t->updates.push_back(call);
    if (call.kind == Kind::kMerge) {
      t->counts.merges++;
    } else if (call.kind == Kind::kDelete) {
      t->counts.deletes++;
    } else {
      t->counts.puts++;
    }
    return "ok";
  }
  std::string Commit(Transaction* t) {
    if (optimistic_) {
      for (const auto& [place, tracked] : t->tracked) {
        if (LastChange(place) <= tracked.since) continue;
        t->failed = true;
        return "Busy";
      }
    }
    for (const TransactionCall& update : t->updates) Apply(update);
    *t = {};
    return "ok";
  }

  const bool optimistic_;
  const bool relocks_;
  uint64_t sequence_ = 0;
  std::map<Place, std::map<uint64_t, Value>> versions_;
  std::array<Transaction, kTransactions> at_;
};

// ---- Random calls -----------------------------------------------------------

// Returns a call that the state of the transactions allows. `all`: not only
// those that RocksDB's C interface has.
inline TransactionCall RandomTransactionCall(const TransactionModel& model,
                                             bool optimistic, bool all,
                                             Rng* rng) {
  using Kind = TransactionCall::Kind;
  TransactionCall call;
  call.transaction = rng->Below(TransactionCallee::kTransactions);
  call.family = rng->Below(TransactionCallee::kFamilies);
  call.key = std::string(1, static_cast<char>('a' + rng->Below(6)));
  if (rng->OneIn(4)) call.key = TransactionCallee::NeighborOf(call.key);
  call.flag = rng->OneIn(2);
  if (rng->OneIn(6)) {
    call.kind = rng->Pick({Kind::kPlainPut, Kind::kPlainMerge,
                           Kind::kPlainDelete, Kind::kPlainGet});
    if (rng->OneIn(10)) {
      call.kind = rng->Pick({Kind::kFlush, Kind::kCompact, Kind::kReopen});
    }
    call.value = std::to_string(rng->Below(1000));
    return call;
  }
  const size_t i = call.transaction;
  if (!model.IsOpen(i)) {
    call.kind = Kind::kBegin;
    return call;
  }
  if (model.HasFailed(i)) {
    call.kind = Kind::kRollback;
    return call;
  }
  if (rng->OneIn(12) || model.IsPrepared(i)) {
    call.kind = rng->Pick({Kind::kCommit, Kind::kCommit, Kind::kRollback,
                           Kind::kPrepare, Kind::kPrepare});
    if (call.kind != Kind::kPrepare) return call;
    if (!model.IsPrepared(i) && !optimistic) return call;
    call.kind = model.IsPrepared(i) ? Kind::kGet : Kind::kCommit;
    return call;
  }
  call.value = std::to_string(rng->Below(1000));
  call.kind = static_cast<Kind>(rng->Between(
      static_cast<int>(Kind::kPut),
      static_cast<int>(all ? Kind::kCounts : Kind::kRollbackToSavePoint)));
  switch (call.kind) {
    case Kind::kPrepare:
    case Kind::kCommit:
    case Kind::kRollback:
      call.kind = Kind::kPut;
      break;
    case Kind::kSetSnapshot:
    case Kind::kClearSnapshot:
    case Kind::kUndoGetForUpdate:
      // Whether a save point takes them back is not promised.
      if (model.HasSavePoints(i) || !rng->OneIn(3)) call.kind = Kind::kGet;
      break;
    default:
      break;
  }
  const bool locks = call.kind == Kind::kPut || call.kind == Kind::kMerge ||
                     call.kind == Kind::kDelete ||
                     call.kind == Kind::kPutUntracked ||
                     (call.kind == Kind::kGetForUpdate && call.flag);
  // Nor whether it takes an upgrade of a lock back.
  if (locks && model.HasSavePoints(i) && model.HasShared(call)) {
    call.kind = Kind::kGet;
  }
  return call;
}

// ---- Varve ------------------------------------------------------------------

class VarveTransactions : public TransactionCallee {
 public:
  using Kind = TransactionCall::Kind;

  VarveTransactions(bool optimistic, std::string path, const Options& options)
      : optimistic_(optimistic), path_(std::move(path)), options_(options) {
    options_.create_missing_column_families = true;
    options_.merge_operator = NewStringAppendOperator();
    Open();
  }
  ~VarveTransactions() override { Close(); }

  std::string Call(const TransactionCall& call) override {
    ColumnFamilyHandle* const family = handles_[call.family].get();
    auto& owned = at_[call.transaction];
    Transaction* const t = owned.get();
    std::string value;
    switch (call.kind) {
      case Kind::kBegin:
        owned.reset(Begin(call.flag, owned.release()));
        return "ok";
      case Kind::kPut:
        return ToText(t->Put(family, call.key, call.value));
      case Kind::kMerge:
        return ToText(t->Merge(family, call.key, call.value));
      case Kind::kDelete:
        return ToText(t->Delete(family, call.key));
      case Kind::kPutUntracked:
        return ToText(t->PutUntracked(family, call.key, call.value));
      case Kind::kGet:
        return ToText(t->Get(ReadAt(call), family, call.key, &value), value);
      case Kind::kGetForUpdate:
        return ToText(t->GetForUpdate({}, family, call.key, &value, call.flag),
                      value);
      case Kind::kMultiGet:
        return MultiGet(call);
      case Kind::kScan:
      case Kind::kScanBackward:
        return Scan(call);
      case Kind::kSeek:
        return Seek(call);
      case Kind::kSetSavePoint:
        t->SetSavePoint();
        return "ok";
      case Kind::kRollbackToSavePoint:
        return ToText(t->RollbackToSavePoint());
      case Kind::kPopSavePoint:
        return ToText(t->PopSavePoint());
      case Kind::kPrepare: {
        const Status named = t->SetName(NameOf(call.transaction));
        return named.ok() ? ToText(t->Prepare()) : ToText(named);
      }
      case Kind::kCommit:
        return ToText(t->Commit());
      case Kind::kRollback:
        return ToText(t->Rollback());
      case Kind::kSetSnapshot:
        t->SetSnapshot();
        return "ok";
      case Kind::kClearSnapshot:
        t->ClearSnapshot();
        return "ok";
      case Kind::kUndoGetForUpdate:
        t->UndoGetForUpdate(family, call.key);
        return "ok";
      case Kind::kCounts:
        return std::to_string(t->GetNumPuts()) + " " +
               std::to_string(t->GetNumDeletes()) + " " +
               std::to_string(t->GetNumMerges()) + " " +
               std::to_string(t->GetNumKeys());
      case Kind::kPlainPut:
        return ToText(db()->Put({}, family, call.key, call.value));
      case Kind::kPlainMerge:
        return ToText(db()->Merge({}, family, call.key, call.value));
      case Kind::kPlainDelete:
        return ToText(db()->Delete({}, family, call.key));
      case Kind::kPlainGet:
        return ToText(db()->Get({}, family, call.key, &value), value);
      case Kind::kFlush:
        return ToText(db()->Flush({}, family));
      case Kind::kCompact:
        return ToText(db()->CompactRange({}, family, nullptr, nullptr));
      case Kind::kReopen:
        Close();
        Open();
        return "ok";
    }
    return "";
  }

 private:
  DB* db() const {
    return optimistic_ ? static_cast<DB*>(optimistic_db_.get())
                       : locking_db_.get();
  }
  static std::string ToText(const Status& status) {
    if (status.ok()) return "ok";
    if (status.IsNotFound()) return "NotFound";
    if (status.IsBusy()) return "Busy";
    if (status.IsTimedOut()) return "TimedOut";
    return status.ToString();
  }
  static std::string ToText(const Status& status, const std::string& value) {
    return status.ok() ? "=" + value : ToText(status);
  }

  void Open() {
    const std::vector<ColumnFamilyDescriptor> families = {
        {kDefaultColumnFamilyName, options_}, {"other", options_}};
    std::vector<ColumnFamilyHandle*> handles;
    if (optimistic_) {
      ASSERT_TRUE(Ok(OptimisticTransactionDB::Open(options_, path_, families,
                                                   &handles, &optimistic_db_)));
    } else {
      TransactionDBOptions locks;
      locks.default_lock_timeout = 0;
      ASSERT_TRUE(Ok(TransactionDB::Open(options_, locks, path_, families,
                                         &handles, &locking_db_)));
      std::vector<Transaction*> prepared;
      locking_db_->GetAllPreparedTransactions(&prepared);
      for (Transaction* each : prepared) {
        for (size_t i = 0; i < kTransactions; ++i) {
          if (each->GetName() == NameOf(i)) at_[i].reset(each);
        }
      }
    }
    for (ColumnFamilyHandle* handle : handles) handles_.emplace_back(handle);
  }
  void Close() {
    for (auto& each : at_) each.reset();
    handles_.clear();
    optimistic_db_.reset();
    locking_db_.reset();
  }
  Transaction* Begin(bool set_snapshot, Transaction* old) {
    if (optimistic_) {
      OptimisticTransactionOptions options;
      options.set_snapshot = set_snapshot;
      return optimistic_db_->BeginTransaction({}, options, old);
    }
    TransactionOptions options;
    options.set_snapshot = set_snapshot;
    options.lock_timeout = 0;
    return locking_db_->BeginTransaction({}, options, old);
  }
  ReadOptions ReadAt(const TransactionCall& call) const {
    ReadOptions options;
    if (call.flag) options.snapshot = at_[call.transaction]->GetSnapshot();
    return options;
  }
  std::unique_ptr<Iterator> NewIterator(const TransactionCall& call) const {
    return at_[call.transaction]->GetIterator(ReadAt(call),
                                              handles_[call.family].get());
  }
  std::string MultiGet(const TransactionCall& call) {
    const std::string neighbor = NeighborOf(call.key);
    const Slice keys[] = {call.key, neighbor};
    PinnableSlice values[2];
    Status statuses[2];
    at_[call.transaction]->MultiGet(ReadAt(call), handles_[call.family].get(),
                                    2, keys, values, statuses);
    return ToText(statuses[0], values[0].ToString()) + " " +
           ToText(statuses[1], values[1].ToString());
  }
  static std::string EntryOf(const Iterator& it) {
    return it.key().ToString() + "=" + it.value().ToString() + ";";
  }
  std::string Scan(const TransactionCall& call) const {
    const auto it = NewIterator(call);
    const bool forward = call.kind == Kind::kScan;
    std::string text;
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      text += EntryOf(*it);
    }
    return it->status().ok() ? text : it->status().ToString();
  }
  std::string Seek(const TransactionCall& call) const {
    const auto it = NewIterator(call);
    it->Seek(call.key);
    if (!it->Valid()) return "end";
    std::string text = EntryOf(*it);
    it->Next();
    if (!it->Valid()) return text + "end";
    text += EntryOf(*it);
    it->Prev();
    return text + EntryOf(*it);
  }

  const bool optimistic_;
  const std::string path_;
  Options options_;
  std::unique_ptr<OptimisticTransactionDB> optimistic_db_;
  std::unique_ptr<TransactionDB> locking_db_;
  std::vector<std::unique_ptr<ColumnFamilyHandle>> handles_;
  std::array<std::unique_ptr<Transaction>, kTransactions> at_;
};

// Makes random calls of two, and compares what they return. `all`: `found` is
// Varve.
inline void CompareTransactions(TransactionCallee* found, bool optimistic,
                                bool all, int calls, Rng* rng) {
  TransactionModel model(optimistic, all);
  std::deque<std::string> log;
  for (int i = 0; i < calls; ++i) {
    const TransactionCall call =
        RandomTransactionCall(model, optimistic, all, rng);
    const std::string expected = model.Call(call);
    log.push_back(ToText(call) + ": " + expected);
    if (log.size() > 40) log.pop_front();
    const std::string result = found->Call(call);
    if (result == expected) continue;
    std::string text;
    for (const std::string& line : log) text += line + "\n";
    FAIL() << text << "returned " << result;
  }
}

}  // namespace varve::test
