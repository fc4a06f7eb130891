// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB can open one directory with merge operands in turn,
// and each merges what the other wrote, wherever it is. Method: in random
// sessions either engine puts, merges, deletes, flushes, compacts with
// snapshots held, and closes with logs alive. Each engine then reads everything
// as in a model. RocksDB has no operator BytesOR, and gets the test's own.
// VARVE_SESSIONS sets the number of sessions. RocksDB compresses by Snappy, LZ4
// or ZSTD.
//
// ldb of RocksDB 7.8 has no flag for a merge operator. It takes the operator
// from the OPTIONS file that RocksDB writes and Varve leaves as it is.

#include "test/testing/engines/engines.h"
#include "util/bytes/coding.h"

namespace varve::test {
namespace {

// ---- The model --------------------------------------------------------------

uint64_t NumberIn(const std::string& bytes) {
  return bytes.size() == 8 ? DecodeFixed64(bytes.data()) : 0;
}

// Returns what `value` becomes, which is null if the key does not exist.
std::string Merged(const std::string& name, const std::string* value,
                   const std::string& operand) {
  if (name == "uint64add") {
    std::string sum;
    PutFixed64(&sum,
               (value == nullptr ? 0 : NumberIn(*value)) + NumberIn(operand));
    return sum;
  }
  if (value == nullptr) return operand;
  if (name == "stringappend") return *value + "," + operand;
  if (name == "max") return std::max(*value, operand);
  return Or(*value, operand);
}

void Apply(const std::string& name, const Update& update, Entries* entries) {
  switch (update.kind) {
    case Update::Kind::kPut:
      (*entries)[update.key] = update.value;
      return;
    case Update::Kind::kMerge: {
      const auto found = entries->find(update.key);
      const std::string merged =
          Merged(name, found == entries->end() ? nullptr : &found->second,
                 update.value);
      (*entries)[update.key] = merged;
      return;
    }
    case Update::Kind::kDelete:
    case Update::Kind::kSingleDelete:
      entries->erase(update.key);
      return;
    case Update::Kind::kDeleteRange:
      entries->erase(entries->lower_bound(update.key),
                     entries->lower_bound(update.value));
  }
}

// ---- Sessions ---------------------------------------------------------------

// The parameter is a merge operator's name.
class MergeInteropTest : public ::testing::TestWithParam<const char*> {
 protected:
  MergeInteropTest() : random_(TestSeed()), engines_(&random_) {}

  static constexpr int kKeys = 300;
  inline static const std::string kFamily = kDefaultColumnFamilyName;

  std::string RandomKey() { return Key(random_.Between(0, kKeys)); }
  // Nothing else is deleted of these keys, they are put when they do not exist,
  // and they have no operands.
  std::string OnceKey() { return "once" + std::to_string(random_.Below(50)); }

  std::string RandomValue() {
    if (GetParam() == std::string("uint64add") && !random_.OneIn(10)) {
      std::string number;
      PutFixed64(&number, random_.OneIn(3) ? random_.Next() : 1);
      return number;
    }
    return random_.Bytes(random_.Below(random_.OneIn(50) ? 3000 : 60));
  }

  Update RandomUpdate() {
    Update update{Update::Kind::kMerge, RandomKey(), RandomValue()};
    // A part of the time most operands are for a few keys.
    if (random_.OneIn(3)) update.key = Key(busy_ + random_.Between(0, 3));
    if (has_ranges_ && random_.OneIn(40)) {
      update.kind = Update::Kind::kDeleteRange;
      const int first = random_.Between(0, kKeys);
      const int size = random_.Between(0, random_.OneIn(5) ? kKeys / 3 : 10);
      update.key = Key(first);
      update.value = Key(first + size);
    } else if (random_.OneIn(12)) {
      update.key = OnceKey();
      update.kind = model_.count(update.key) != 0 ? Update::Kind::kSingleDelete
                                                  : Update::Kind::kPut;
    } else if (random_.OneIn(10)) {
      update.kind = Update::Kind::kDelete;
    } else if (random_.OneIn(6)) {
      update.kind = Update::Kind::kPut;
    }
    return update;
  }

  void Compact(Engine* engine) {
    std::string begin = RandomKey();
    std::string end = RandomKey();
    if (end < begin) begin.swap(end);
    engine->Compact(kFamily, random_.OneIn(2) ? nullptr : &begin,
                    random_.OneIn(2) ? nullptr : &end);
    ++compactions_;
  }

  void Step(Engine* engine, bool disable_wal) {
    if (random_.OneIn(150)) engine->Flush({kFamily});
    if (random_.OneIn(300)) Compact(engine);
    if (random_.OneIn(60) && snapshots_.size() < 4) {
      snapshots_.push_back({engine->TakeSnapshot(), model_});
    }
    if (random_.OneIn(200)) CheckSnapshot(engine);
    if (random_.OneIn(100)) busy_ = random_.Between(0, kKeys);
    std::vector<Update> batch;
    const int size = random_.OneIn(3) ? random_.Between(2, 12) : 1;
    for (int i = 0; i < size; ++i) {
      batch.push_back(RandomUpdate());
      Apply(GetParam(), batch.back(), &model_);
      operands_ += batch.back().kind == Update::Kind::kMerge ? 1 : 0;
    }
    engine->Write(batch, disable_wal && random_.OneIn(2));
  }

  // Checks one of the snapshots, and releases it or not.
  void CheckSnapshot(Engine* engine) {
    if (snapshots_.empty()) return;
    auto held = snapshots_.begin();
    std::advance(held, static_cast<long>(random_.Below(snapshots_.size())));
    SCOPED_TRACE("at a snapshot");
    Check(engine, held->snapshot, held->model, 300);
    if (random_.OneIn(2)) return;
    engine->ReleaseSnapshot(held->snapshot);
    snapshots_.erase(held);
    ++released_;
  }
  void Check(Engine* engine, const void* snapshot, const Entries& model,
             int gets) {
    const EntryList expected(model.begin(), model.end());
    ASSERT_TRUE(SameEntries(expected, engine->Scan(kFamily, snapshot)));
    ASSERT_TRUE(SameEntries(expected, engine->ScanBackward(kFamily, snapshot)))
        << "backward";
    for (int i = 0; i < gets; ++i) {
      const std::string key = random_.OneIn(8) ? OnceKey() : RandomKey();
      const auto place = model.find(key);
      ASSERT_EQ(Hex(engine->Get(kFamily, key, snapshot)),
                Hex(place == model.end() ? "NotFound" : place->second))
          << key;
    }
  }

  void CheckWithLdb() {
    if (GetParam() == std::string("bytesor")) return;
    bool has_options = false;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      has_options |= file.path().filename().string().starts_with("OPTIONS-");
    }
    if (!has_options) return;
    EXPECT_TRUE(SameText(ScanLines({model_.begin(), model_.end()}),
                         Ldb(path_, {"scan", "--try_load_options"})));
    ++read_by_ldb_;
  }

  void Session() {
    const auto [engine, other] = engines_.Shuffled(&random_);
    SCOPED_TRACE(engines_.WriterName(engine));
    Setting setting{.merge_operator = GetParam(), .has_ranges = has_ranges_};
    ASSERT_NO_FATAL_FAILURE(engine->Open(path_, setting, {kFamily}));
    ASSERT_NO_FATAL_FAILURE(Check(engine, nullptr, model_, 300));
    const bool disable_wal = random_.OneIn(5);
    for (int i = random_.Between(1, 2000); i > 0 && !HasFailure(); --i) {
      Step(engine, disable_wal);
    }
    if (HasFailure()) return;
    if (random_.OneIn(3)) Compact(engine);
    while (!snapshots_.empty() && !HasFailure()) CheckSnapshot(engine);
    if (random_.OneIn(3)) Compact(engine);
    if (random_.OneIn(4)) {
      ASSERT_NO_FATAL_FAILURE(Check(engine, nullptr, model_, 300));
    }
    engine->Close();
    logs_ += FilesEndingIn(path_, ".log").size();
    setting.read_only = random_.OneIn(2);
    ASSERT_NO_FATAL_FAILURE(other->Open(path_, setting, {kFamily}));
    ASSERT_NO_FATAL_FAILURE(Check(other, nullptr, model_, 300));
    if (!setting.read_only && random_.OneIn(2)) {
      Compact(other);
      ASSERT_NO_FATAL_FAILURE(Check(other, nullptr, model_, 300));
    }
    other->Close();
    if (random_.OneIn(4)) CheckWithLdb();
  }

  struct HeldSnapshot {
    const void* snapshot;
    Entries model;
  };

  TempDir dir_;
  Rng random_;
  EnginePair engines_;
  std::string path_;
  Entries model_;
  std::list<HeldSnapshot> snapshots_;
  int busy_ = 0;
  bool has_ranges_ = false;
  uint64_t operands_ = 0;
  uint64_t compactions_ = 0;
  uint64_t released_ = 0;
  uint64_t logs_ = 0;
  uint64_t read_by_ldb_ = 0;
};

TEST_P(MergeInteropTest, EachMergesWhatTheOtherWrote) {
  constexpr int kCases = 4;
  constexpr int kSessionsOfADatabase = 4;
  ASSERT_TRUE(engines_.rocksdb.loaded());
  const int sessions = EnvironmentInt("VARVE_SESSIONS", 16) / kCases + 1;
  for (int i = 0; i < sessions && !HasFailure(); ++i) {
    SCOPED_TRACE("session " + std::to_string(i));
    if (i % kSessionsOfADatabase == 0) {
      if (i > 0) std::filesystem::remove_all(path_);
      path_ = dir_.Sub("db" + std::to_string(i));
      model_.clear();
      has_ranges_ = random_.OneIn(2);
    }
    Session();
  }
  printf(
      "%d sessions, %llu operands, %llu compactions, %llu snapshots checked, "
      "%llu logs alive, %llu scans by ldb\n",
      sessions, static_cast<unsigned long long>(operands_),
      static_cast<unsigned long long>(compactions_),
      static_cast<unsigned long long>(released_),
      static_cast<unsigned long long>(logs_),
      static_cast<unsigned long long>(read_by_ldb_));
}

std::string CaseName(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(, MergeInteropTest,
                         ::testing::Values("uint64add", "stringappend", "max",
                                           "bytesor"),
                         CaseName);

}  // namespace
}  // namespace varve::test
