// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB can open one directory with any number of column
// families in turn, and each finds what the other wrote, created and dropped.
// Method: in random sessions either engine updates families, flushes, compacts,
// creates and drops some, and closes with logs alive. After each session the
// other one opens all families, and everything must be as in a model.
// VARVE_SESSIONS sets the number of sessions.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/tools.h"
#include "varve/column_family.h"
#include "varve/filter_policy.h"

namespace varve::test {
namespace {

// ---- The model --------------------------------------------------------------

// Families of these names have keys in descending order.
bool IsDescending(const std::string& name) {
  return name.starts_with("descending");
}

struct KeyOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return is_descending ? b < a : a < b;
  }
  bool is_descending = false;
};

struct Update {
  enum class Kind { kPut, kDelete, kSingleDelete, kDeleteRange };

  Kind kind = Kind::kPut;
  std::string family;
  std::string key;
  // The value, or the end of a range.
  std::string value;
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

// ---- The engines ------------------------------------------------------------

// The options and families of a session.
struct Setting {
  bool read_only = false;
  bool atomic_flush = false;
  // RocksDB only: keeps the logs that it recovered instead of flushing them.
  bool keep_recovered_logs = false;
  uint64_t max_total_wal_size = 0;
};

// One of the two engines, with a database open or not. Errors fail the test.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::vector<std::string> List(const std::string& path) = 0;
  virtual void Open(const std::string& path, const Setting& setting,
                    const std::vector<std::string>& names) = 0;
  virtual void Close() = 0;
  // Returns the family's id.
  virtual uint32_t Create(const std::string& name) = 0;
  virtual void Drop(const std::string& name) = 0;
  virtual uint32_t Id(const std::string& name) = 0;
  virtual void Write(const std::vector<Update>& batch, bool disable_wal) = 0;
  virtual void Flush(const std::vector<std::string>& names) = 0;
  virtual void Compact(const std::string& name) = 0;
  virtual void TakeSnapshot() = 0;
  virtual void ReleaseSnapshot() = 0;
  virtual EntryList Scan(const std::string& name) = 0;
  // Returns the value, or "NotFound".
  virtual std::string Get(const std::string& name, const std::string& key) = 0;
};

class VarveEngine : public Engine {
 public:
  explicit VarveEngine(Rng* random) : random_(*random) {}
  ~VarveEngine() override {
    for (const auto& [name, handle] : handles_) delete handle;
  }

  std::vector<std::string> List(const std::string& path) override {
    std::vector<std::string> names;
    EXPECT_TRUE(Ok(DB::ListColumnFamilies({}, path, &names)));
    return names;
  }
  void Open(const std::string& path, const Setting& setting,
            const std::vector<std::string>& names) override {
    DBOptions options = TinyOptions();
    options.atomic_flush = setting.atomic_flush;
    options.max_total_wal_size = setting.max_total_wal_size;
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, RandomOptions(name));
    }
    std::vector<ColumnFamilyHandle*> handles;
    ASSERT_TRUE(
        Ok(setting.read_only
               ? DB::OpenForReadOnly(options, path, families, &handles, &db_)
               : DB::Open(options, path, families, &handles, &db_)));
    for (size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
  }
  void Close() override {
    ReleaseSnapshot();
    for (const auto& [name, handle] : handles_) {
      EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handle)));
    }
    handles_.clear();
    EXPECT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  uint32_t Create(const std::string& name) override {
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_TRUE(
        Ok(db_->CreateColumnFamily(RandomOptions(name), name, &handle)));
    if (handle == nullptr) return 0;
    handles_[name] = handle;
    return handle->GetID();
  }
  void Drop(const std::string& name) override {
    EXPECT_TRUE(Ok(db_->DropColumnFamily(handles_.at(name))));
    EXPECT_TRUE(Ok(db_->DestroyColumnFamilyHandle(handles_.at(name))));
    handles_.erase(name);
  }
  uint32_t Id(const std::string& name) override {
    return handles_.at(name)->GetID();
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    WriteBatch bytes;
    for (const Update& update : batch) {
      ColumnFamilyHandle* const family = handles_.at(update.family);
      switch (update.kind) {
        case Update::Kind::kPut:
          bytes.Put(family, update.key, update.value);
          break;
        case Update::Kind::kDelete:
          bytes.Delete(family, update.key);
          break;
        case Update::Kind::kSingleDelete:
          bytes.SingleDelete(family, update.key);
          break;
        case Update::Kind::kDeleteRange:
          bytes.DeleteRange(family, update.key, update.value);
      }
    }
    WriteOptions options;
    options.disable_wal = disable_wal;
    EXPECT_TRUE(Ok(db_->Write(options, &bytes)));
  }
  void Flush(const std::vector<std::string>& names) override {
    std::vector<ColumnFamilyHandle*> families;
    for (const std::string& name : names) families.push_back(handles_.at(name));
    EXPECT_TRUE(Ok(db_->Flush({}, families)));
  }
  void Compact(const std::string& name) override {
    EXPECT_TRUE(Ok(db_->CompactRange({}, handles_.at(name), nullptr, nullptr)));
  }
  void TakeSnapshot() override {
    if (snapshot_ == nullptr) snapshot_ = db_->GetSnapshot();
  }
  void ReleaseSnapshot() override {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }
  EntryList Scan(const std::string& name) override {
    EntryList entries;
    const auto it = db_->NewIterator({}, handles_.at(name));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      entries.emplace_back(it->key().ToString(), it->value().ToString());
    }
    EXPECT_TRUE(Ok(it->status()));
    return entries;
  }
  std::string Get(const std::string& name, const std::string& key) override {
    std::string value;
    const Status s = db_->Get({}, handles_.at(name), key, &value);
    return s.ok() ? value : s.IsNotFound() ? "NotFound" : s.ToString();
  }

 private:
  ColumnFamilyOptions RandomOptions(const std::string& name) {
    Options options = TinyOptions();
    if (IsDescending(name)) options.comparator = ReverseBytewiseComparator();
    options.compression =
        AllCompressions()[random_.Below(AllCompressions().size())].second;
    if (random_.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
    options.block_size = random_.Pick<size_t>({256, 1 << 10, 4 << 10});
    return options;
  }

  Rng& random_;
  std::unique_ptr<DB> db_;
  std::map<std::string, ColumnFamilyHandle*> handles_;
  const Snapshot* snapshot_ = nullptr;
};

class RocksDbEngine : public Engine, public RocksDbLibrary {
 public:
  explicit RocksDbEngine(Rng* random) : random_(*random) {}

  std::vector<std::string> List(const std::string& path) override {
    size_t count = 0;
    char** const list = CallChecked<char**>(
        "list_column_families", NewOptions(""), path.c_str(), &count);
    if (list == nullptr) return {};
    std::vector<std::string> names(list, list + count);
    Call<void>("list_column_families_destroy", list, count);
    DeleteOptions();
    return names;
  }
  void Open(const std::string& path, const Setting& setting,
            const std::vector<std::string>& names) override {
    std::string text = "create_if_missing=true;";
    if (setting.atomic_flush) text += "atomic_flush=true;";
    if (setting.keep_recovered_logs)
      text += "avoid_flush_during_recovery=true;";
    text += "max_total_wal_size=" + std::to_string(setting.max_total_wal_size);
    void* const options = NewOptions(text);
    std::vector<const char*> texts;
    std::vector<void*> family_options;
    for (const std::string& name : names) {
      texts.push_back(name.c_str());
      family_options.push_back(NewOptions(RandomOptions(name)));
    }
    std::vector<void*> handles(names.size());
    const int count = static_cast<int>(names.size());
    db_ = setting.read_only
              ? CallChecked<void*>("open_for_read_only_column_families",
                                   options, path.c_str(), count, texts.data(),
                                   family_options.data(), handles.data(),
                                   static_cast<unsigned char>(0))
              : CallChecked<void*>("open_column_families", options,
                                   path.c_str(), count, texts.data(),
                                   family_options.data(), handles.data());
    ASSERT_NE(db_, nullptr) << text;
    for (size_t i = 0; i < names.size(); ++i) handles_[names[i]] = handles[i];
    read_options_ = Call<void*>("readoptions_create");
  }
  void Close() override {
    ReleaseSnapshot();
    for (const auto& [name, handle] : handles_) {
      Call<void>("column_family_handle_destroy", handle);
    }
    handles_.clear();
    Call<void>("close", db_);
    db_ = nullptr;
    Call<void>("readoptions_destroy", read_options_);
    DeleteOptions();
  }
  uint32_t Create(const std::string& name) override {
    void* const handle =
        CallChecked<void*>("create_column_family", db_,
                           NewOptions(RandomOptions(name)), name.c_str());
    if (handle == nullptr) return 0;
    handles_[name] = handle;
    return Id(name);
  }
  void Drop(const std::string& name) override {
    CallChecked<void>("drop_column_family", db_, handles_.at(name));
    Call<void>("column_family_handle_destroy", handles_.at(name));
    handles_.erase(name);
  }
  uint32_t Id(const std::string& name) override {
    return Call<uint32_t>("column_family_handle_get_id", handles_.at(name));
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    void* const bytes = Call<void*>("writebatch_create");
    for (const Update& update : batch) {
      void* const family = handles_.at(update.family);
      const std::string& key = update.key;
      const std::string& value = update.value;
      switch (update.kind) {
        case Update::Kind::kPut:
          Call<void>("writebatch_put_cf", bytes, family, key.data(), key.size(),
                     value.data(), value.size());
          break;
        case Update::Kind::kDelete:
          Call<void>("writebatch_delete_cf", bytes, family, key.data(),
                     key.size());
          break;
        case Update::Kind::kSingleDelete:
          Call<void>("writebatch_singledelete_cf", bytes, family, key.data(),
                     key.size());
          break;
        case Update::Kind::kDeleteRange:
          Call<void>("writebatch_delete_range_cf", bytes, family, key.data(),
                     key.size(), value.data(), value.size());
      }
    }
    void* const options = Call<void*>("writeoptions_create");
    Call<void>("writeoptions_disable_WAL", options, disable_wal ? 1 : 0);
    CallChecked<void>("write", db_, options, bytes);
    Call<void>("writeoptions_destroy", options);
    Call<void>("writebatch_destroy", bytes);
  }
  // The C interface flushes one at a time. Full memtables of several are
  // flushed together if flushes are atomic.
  void Flush(const std::vector<std::string>& names) override {
    void* const options = Call<void*>("flushoptions_create");
    for (const std::string& name : names) {
      CallChecked<void>("flush_cf", db_, options, handles_.at(name));
    }
    Call<void>("flushoptions_destroy", options);
  }
  void Compact(const std::string& name) override {
    Call<void>("compact_range_cf", db_, handles_.at(name),
               static_cast<const char*>(nullptr), size_t{0},
               static_cast<const char*>(nullptr), size_t{0});
  }
  void TakeSnapshot() override {
    if (snapshot_ == nullptr) {
      snapshot_ = Call<const void*>("create_snapshot", db_);
    }
  }
  void ReleaseSnapshot() override {
    if (snapshot_ != nullptr) Call<void>("release_snapshot", db_, snapshot_);
    snapshot_ = nullptr;
  }
  EntryList Scan(const std::string& name) override {
    EntryList entries;
    void* const it = Call<void*>("create_iterator_cf", db_, read_options_,
                                 handles_.at(name));
    for (Call<void>("iter_seek_to_first", it);
         Call<unsigned char>("iter_valid", it) != 0;
         Call<void>("iter_next", it)) {
      size_t key_size = 0;
      size_t value_size = 0;
      const char* const key = Call<const char*>("iter_key", it, &key_size);
      const char* const value =
          Call<const char*>("iter_value", it, &value_size);
      entries.emplace_back(std::string(key, key_size),
                           std::string(value, value_size));
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return entries;
  }
  std::string Get(const std::string& name, const std::string& key) override {
    size_t size = 0;
    char* const value =
        CallChecked<char*>("get_cf", db_, read_options_, handles_.at(name),
                           key.data(), key.size(), &size);
    if (value == nullptr) return "NotFound";
    std::string copy(value, size);
    Call<void>("free", value);
    return copy;
  }

 private:
  // The options live until DeleteOptions.
  void* NewOptions(const std::string& text) {
    void* const defaults = Call<void*>("options_create");
    void* const options = Call<void*>("options_create");
    CallChecked<void>("get_options_from_string", defaults, text.c_str(),
                      options);
    all_options_.push_back(defaults);
    all_options_.push_back(options);
    return options;
  }
  void DeleteOptions() {
    for (void* options : all_options_) Call<void>("options_destroy", options);
    all_options_.clear();
  }
  std::string RandomOptions(const std::string& name) {
    std::string text =
        "write_buffer_size=65536;target_file_size_base=65536;"
        "max_bytes_for_level_base=131072;compression=";
    text += random_.Pick<const char*>(
        {"kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"});
    if (IsDescending(name)) {
      text += ";comparator=rocksdb.ReverseBytewiseComparator";
    }
    text += ";block_based_table_factory={block_size=";
    text += std::to_string(random_.Pick({256, 1024, 4096}));
    text += ";format_version=" + std::to_string(random_.Between(2, 5));
    text += random_.OneIn(2) ? ";filter_policy=bloomfilter:10:false" : "";
    return text + "};";
  }

  Rng& random_;
  void* db_ = nullptr;
  void* read_options_ = nullptr;
  std::map<std::string, void*> handles_;
  const void* snapshot_ = nullptr;
  std::vector<void*> all_options_;
};

// ---- Sessions ---------------------------------------------------------------

// The parameter is the number of families.
class FamiliesInteropTest : public ::testing::TestWithParam<int> {
 protected:
  FamiliesInteropTest()
      : random_(TestSeed()), varve_(&random_), rocksdb_(&random_) {}

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
    if (random_.OneIn(400)) engine->Compact(RandomName());
    if (random_.OneIn(200)) engine->TakeSnapshot();
    if (random_.OneIn(400)) engine->ReleaseSnapshot();
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
      ASSERT_TRUE(SameEntries(expected, engine->Scan(name)));
      const int gets = 3000 / static_cast<int>(model_.size());
      for (int i = 0; i < gets; ++i) {
        const std::string key = random_.OneIn(8)
                                    ? "once" + std::to_string(random_.Below(50))
                                    : RandomKey();
        const auto place = family.entries.find(key);
        ASSERT_EQ(engine->Get(name, key),
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
    setting.keep_recovered_logs = random_.OneIn(2);
    setting.max_total_wal_size =
        random_.Pick<uint64_t>({0, 0, 100 << 10, 1 << 20});
    return setting;
  }

  void Session() {
    Engine* const engine =
        random_.OneIn(2) ? static_cast<Engine*>(&varve_) : &rocksdb_;
    Engine* const other =
        engine == &varve_ ? static_cast<Engine*>(&rocksdb_) : &varve_;
    SCOPED_TRACE(engine == &varve_ ? "Varve wrote" : "RocksDB wrote");
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
    engine->Close();
    logs_ += FilesEndingIn(path_, ".log").size();
    CheckList(&varve_);
    CheckList(&rocksdb_);
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
  VarveEngine varve_;
  RocksDbEngine rocksdb_;
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
  uint64_t logs_ = 0;
};

TEST_P(FamiliesInteropTest, EachOpensWhatTheOtherLeft) {
  constexpr int kCases = 3;
  constexpr int kSessionsOfADatabase = 4;
  ASSERT_TRUE(rocksdb_.loaded());
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
  printf("%d sessions, %llu families created, %llu dropped, %llu logs alive\n",
         sessions, static_cast<unsigned long long>(created_),
         static_cast<unsigned long long>(dropped_),
         static_cast<unsigned long long>(logs_));
}

std::string CaseName(const ::testing::TestParamInfo<int>& info) {
  return std::to_string(info.param) + "Families";
}

INSTANTIATE_TEST_SUITE_P(, FamiliesInteropTest, ::testing::Values(1, 2, 50),
                         CaseName);

}  // namespace
}  // namespace varve::test
