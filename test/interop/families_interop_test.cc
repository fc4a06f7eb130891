// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB can open one directory with any number of column
// families in turn, and each finds what the other wrote, created and dropped.
// Method: in random sessions either engine updates families, flushes, compacts,
// ingests tables that either has written, creates and drops some, and closes
// with logs alive. After each session the
// other one opens all families, and everything must be as in a model.
// VARVE_SESSIONS sets the number of sessions. RocksDB compresses by Snappy, LZ4
// or ZSTD.

#include "test/testing/engines/engines.h"

namespace varve::test {
namespace {

// ---- The model --------------------------------------------------------------

struct KeyOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return is_descending ? b < a : a < b;
  }
  bool is_descending = false;
};

struct ModelFamily {
  uint32_t id = 0;
  std::map<std::string, std::string, KeyOrder> entries;
};

using Model = std::map<std::string, ModelFamily>;

void Apply(const Update& update, Model* model) {
  auto& entries = model->at(update.family).entries;
  switch (update.kind) {
    case Update::Kind::kPut:
    case Update::Kind::kMerge:  // None here.
      entries[update.key] = update.value;
      return;
    case Update::Kind::kDelete:
    case Update::Kind::kSingleDelete:
      entries.erase(update.key);
      return;
    case Update::Kind::kDeleteRange:
      entries.erase(entries.lower_bound(update.key),
                    entries.lower_bound(update.value));
  }
}

// ---- Sessions ---------------------------------------------------------------

// The parameter is the number of families.
class FamiliesInteropTest : public ::testing::TestWithParam<int> {
 protected:
  FamiliesInteropTest() : random_(TestSeed()), engines_(&random_) {}

  static constexpr int kKeys = 400;

  std::string RandomName() {
    auto place = model_.begin();
    std::advance(place, static_cast<long>(random_.Below(model_.size())));
    return place->first;
  }
  // Returns a name that no family has, or an empty one.
  std::string UnusedName() {
    for (int i = 0; i < 20; ++i) {
      const int number = random_.Between(0, 2 * GetParam());
      const std::string name = has_descending_ && number % 3 == 0
                                   ? "descending " + std::to_string(number)
                                   : "family " + std::to_string(number);
      if (model_.count(name) == 0) return name;
    }
    return "";
  }
  std::string RandomKey() { return Key(random_.Between(0, kKeys)); }

  Update RandomUpdate() {
    Update update;
    update.family = random_.OneIn(3) ? busy_ : RandomName();
    update.key = RandomKey();
    update.value = random_.Bytes(random_.Below(random_.OneIn(50) ? 5000 : 100));
    if (random_.OneIn(25)) {
      update.kind = Update::Kind::kDeleteRange;
      const int first = random_.Between(0, kKeys);
      const int size = random_.Between(0, random_.OneIn(5) ? kKeys / 3 : 10);
      update.key = Key(first);
      update.value = Key(first + size);
      if (IsDescending(update.family)) std::swap(update.key, update.value);
    } else if (random_.OneIn(8)) {
      // Of these keys nothing else is deleted, and they are put when they do
      // not exist.
      update.key = "once" + std::to_string(random_.Below(50));
      update.kind = model_.at(update.family).entries.count(update.key) != 0
                        ? Update::Kind::kSingleDelete
                        : Update::Kind::kPut;
    } else if (random_.OneIn(5)) {
      update.kind = Update::Kind::kDelete;
    }
    return update;
  }

  void Create(Engine* engine) {
    const std::string name = UnusedName();
    if (name.empty()) return;
    ModelFamily family;
    family.entries = std::map<std::string, std::string, KeyOrder>(
        KeyOrder{IsDescending(name)});
    family.id = engine->Create(name);
    EXPECT_EQ(ids_.count(family.id), 0u) << "an id is used twice";
    ids_.insert(family.id);
    model_[name] = family;
    ++created_;
  }
  void Drop(Engine* engine) {
    const std::string name = RandomName();
    if (name == kDefaultColumnFamilyName) return;
    engine->Drop(name);
    model_.erase(name);
    if (busy_ == name) busy_ = kDefaultColumnFamilyName;
    ++dropped_;
  }

  // Either engine writes tables, and this one ingests them. Later tables win.
  void Ingest(Engine* engine) {
    const std::string name = RandomName();
    std::vector<std::string> files;
    for (int i = random_.Between(1, 3); i > 0; --i) {
      std::vector<Update> updates;
      std::map<std::string, Update, KeyOrder> by_key(
          KeyOrder{IsDescending(name)});
      for (int j = random_.Between(1, 40); j > 0; --j) {
        Update update = RandomUpdate();
        update.family = name;
        if (update.kind == Update::Kind::kSingleDelete ||
            update.key.starts_with("once")) {
          continue;
        }
        if (update.kind == Update::Kind::kDeleteRange) {
          if (KeyOrder{IsDescending(name)}(update.value, update.key)) {
            std::swap(update.key, update.value);
          }
          // It hides nothing of its own table.
          if (update.key != update.value) updates.push_back(update);
        } else {
          by_key[update.key] = update;
        }
      }
      for (const auto& [key, update] : by_key) updates.push_back(update);
      if (updates.empty()) continue;
      for (const Update& update : updates) Apply(update, &model_);
      files.push_back(dir_.Sub("table" + std::to_string(i)));
      Engine* const writer = random_.OneIn(2)
                                 ? static_cast<Engine*>(&engines_.varve)
                                 : &engines_.rocksdb;
      writer->WriteTable(name, files.back(), updates);
    }
    if (files.empty()) return;
    engine->Ingest(name, files, random_.OneIn(2));
    for (const std::string& file : files) std::filesystem::remove(file);
    ++ingested_;
  }

  void ReleaseSnapshot(Engine* engine) {
    if (snapshot_ != nullptr) engine->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }

  void Step(Engine* engine, bool disable_wal) {
    if (GetParam() > 1) {
      const int size = static_cast<int>(model_.size());
      if (random_.OneIn(size < GetParam() ? 100 : 300)) Create(engine);
      if (random_.OneIn(size > GetParam() ? 100 : 300)) Drop(engine);
    }
    if (random_.OneIn(200)) {
      std::set<std::string> names;
      for (int i = random_.Between(1, 4); i > 0; --i)
        names.insert(RandomName());
      engine->Flush({names.begin(), names.end()});
    }
    if (random_.OneIn(400)) engine->Compact(RandomName(), nullptr, nullptr);
    if (random_.OneIn(150)) Ingest(engine);
    if (random_.OneIn(200) && snapshot_ == nullptr) {
      snapshot_ = engine->TakeSnapshot();
    }
    if (random_.OneIn(400)) ReleaseSnapshot(engine);
    if (random_.OneIn(100)) busy_ = RandomName();
    std::vector<Update> batch;
    const int size = random_.OneIn(3) ? random_.Between(2, 12) : 1;
    for (int i = 0; i < size; ++i) {
      batch.push_back(RandomUpdate());
      Apply(batch.back(), &model_);
    }
    engine->Write(batch, disable_wal && random_.OneIn(2));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, family] : model_) names.push_back(name);
    return names;
  }

  void Check(Engine* engine) {
    for (const auto& [name, family] : model_) {
      SCOPED_TRACE(name);
      EXPECT_EQ(engine->Id(name), family.id);
      const EntryList expected(family.entries.begin(), family.entries.end());
      ASSERT_TRUE(SameEntries(expected, engine->Scan(name, nullptr)));
      const int gets = 3000 / static_cast<int>(model_.size());
      for (int i = 0; i < gets; ++i) {
        const std::string key = random_.OneIn(8)
                                    ? "once" + std::to_string(random_.Below(50))
                                    : RandomKey();
        const auto place = family.entries.find(key);
        ASSERT_EQ(engine->Get(name, key, nullptr),
                  place == family.entries.end() ? "NotFound" : place->second)
            << key;
      }
    }
  }

  void CheckList(Engine* engine) {
    std::vector<std::string> names = engine->List(path_);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, Names());
  }

  // ldb takes the families from RocksDB's file of options. Varve removes it
  // when it creates or drops one. ldb does not know the comparators then.
  void CheckWithLdb() {
    const std::string list = Ldb(path_, {"list_column_families"});
    for (const auto& [name, family] : model_) {
      EXPECT_TRUE(Contains(list, name)) << list;
    }
    EXPECT_EQ(std::count(list.begin(), list.end(), ','),
              static_cast<long>(model_.size()) - 1)
        << list;
    if (has_descending_) return;
    const std::string name = RandomName();
    const auto& entries = model_.at(name).entries;
    EXPECT_TRUE(SameText(
        ScanLines({entries.begin(), entries.end()}),
        Ldb(path_, {"scan", "--column_family=" + name, "--try_load_options"})))
        << name;
  }

  Setting RandomSetting() {
    Setting setting;
    setting.atomic_flush = atomic_flush_;
    setting.max_total_wal_size =
        random_.Pick<uint64_t>({0, 0, 100 << 10, 1 << 20});
    return setting;
  }

  void Session() {
    const auto [engine, other] = engines_.Shuffled(&random_);
    SCOPED_TRACE(engines_.WriterName(engine));
    Setting setting = RandomSetting();
    ASSERT_NO_FATAL_FAILURE(engine->Open(path_, setting, Names()));
    ASSERT_NO_FATAL_FAILURE(Check(engine));
    while (static_cast<int>(model_.size()) < GetParam()) Create(engine);
    const bool disable_wal = random_.OneIn(5);
    busy_ = RandomName();
    for (int i = random_.Between(1, 3000); i > 0 && !HasFailure(); --i) {
      Step(engine, disable_wal);
    }
    if (HasFailure()) return;
    if (random_.OneIn(4)) {
      ASSERT_NO_FATAL_FAILURE(Check(engine));
    }
    ReleaseSnapshot(engine);
    engine->Close();
    logs_ += FilesEndingIn(path_, ".log").size();
    CheckList(&engines_.varve);
    CheckList(&engines_.rocksdb);
    setting = RandomSetting();
    // The logs live on if they are only read.
    setting.read_only = random_.OneIn(2);
    ASSERT_NO_FATAL_FAILURE(other->Open(path_, setting, Names()));
    ASSERT_NO_FATAL_FAILURE(Check(other));
    other->Close();
    if (random_.OneIn(4)) CheckWithLdb();
  }

  TempDir dir_;
  Rng random_;
  EnginePair engines_;
  const void* snapshot_ = nullptr;
  std::string path_;
  Model model_;
  // All ids that the database has used.
  std::set<uint32_t> ids_;
  bool has_descending_ = false;
  bool atomic_flush_ = false;
  // This family gets more updates than others.
  std::string busy_;
  uint64_t created_ = 0;
  uint64_t dropped_ = 0;
  uint64_t ingested_ = 0;
  uint64_t logs_ = 0;
};

TEST_P(FamiliesInteropTest, EachOpensWhatTheOtherLeft) {
  constexpr int kCases = 3;
  constexpr int kSessionsOfADatabase = 4;
  ASSERT_TRUE(engines_.rocksdb.loaded());
  const int sessions = EnvironmentInt("VARVE_SESSIONS", 12) / kCases + 1;
  for (int i = 0; i < sessions && !HasFailure(); ++i) {
    SCOPED_TRACE("session " + std::to_string(i));
    if (i % kSessionsOfADatabase == 0) {
      if (i > 0) std::filesystem::remove_all(path_);
      path_ = dir_.Sub("db" + std::to_string(i));
      model_.clear();
      model_[kDefaultColumnFamilyName] = {};
      ids_ = {0};
      has_descending_ = random_.OneIn(2);
      atomic_flush_ = random_.OneIn(2);
    }
    Session();
  }
  printf(
      "%d sessions, %llu families created, %llu dropped, %llu ingestions, "
      "%llu logs alive\n",
      sessions, static_cast<unsigned long long>(created_),
      static_cast<unsigned long long>(dropped_),
      static_cast<unsigned long long>(ingested_),
      static_cast<unsigned long long>(logs_));
}

std::string CaseName(const ::testing::TestParamInfo<int>& info) {
  return std::to_string(info.param) + "Families";
}

INSTANTIATE_TEST_SUITE_P(, FamiliesInteropTest, ::testing::Values(1, 2, 50),
                         CaseName);

}  // namespace
}  // namespace varve::test
