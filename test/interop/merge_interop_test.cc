// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: Varve and RocksDB can open one directory with merge operands in turn,
// and each merges what the other wrote, wherever it is. Method: in random
// sessions either engine puts, merges, deletes, flushes, compacts with
// snapshots held, and closes with logs alive. Each engine then reads everything
// as in a model. RocksDB has no operator BytesOR, and gets the test's own.
// VARVE_SESSIONS sets the number of sessions.
//
// ldb of RocksDB 7.8 has no flag for a merge operator. It takes the operator
// from the OPTIONS file that RocksDB writes and Varve leaves as it is.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/testing/rocksdb_library.h"
#include "test/testing/seed.h"
#include "test/testing/tools.h"
#include "util/bytes/coding.h"
#include "varve/filter_policy.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

// ---- The model --------------------------------------------------------------

struct Update {
  enum class Kind { kPut, kMerge, kDelete, kSingleDelete, kDeleteRange };

  Kind kind = Kind::kPut;
  std::string key;
  // The value, the operand, or the end of a range.
  std::string value;
};

std::string Or(std::string value, const std::string& operand) {
  value.resize(std::max(value.size(), operand.size()));
  for (size_t i = 0; i < operand.size(); ++i) {
    value[i] = static_cast<char>(value[i] | operand[i]);
  }
  return value;
}

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

// ---- RocksDB's BytesOR ------------------------------------------------------

// Ors operands, also into an existing value, in memory for free().
char* OrAll(std::string value, const char* const* operands,
            const size_t* operand_sizes, int operand_count,
            unsigned char* success, size_t* size) {
  for (int i = 0; i < operand_count; ++i) {
    value = Or(std::move(value), std::string(operands[i], operand_sizes[i]));
  }
  *success = 1;
  *size = value.size();
  char* const copy = static_cast<char*>(malloc(value.size() + 1));
  memcpy(copy, value.data(), value.size());
  return copy;
}
char* OrFully(void* /*state*/, const char* /*key*/, size_t /*key_size*/,
              const char* existing, size_t existing_size,
              const char* const* operands, const size_t* operand_sizes,
              int operand_count, unsigned char* success, size_t* size) {
  return OrAll(existing == nullptr ? "" : std::string(existing, existing_size),
               operands, operand_sizes, operand_count, success, size);
}
char* OrPartially(void* /*state*/, const char* /*key*/, size_t /*key_size*/,
                  const char* const* operands, const size_t* operand_sizes,
                  int operand_count, unsigned char* success, size_t* size) {
  return OrAll("", operands, operand_sizes, operand_count, success, size);
}
void FreeNothing(void* /*state*/) {}
const char* OrName(void* /*state*/) { return "BytesOR"; }

// ---- The engines ------------------------------------------------------------

struct Setting {
  std::string name;        // The merge operator's.
  bool read_only = false;  // The logs are kept.
  // The database may have range deletions. RocksDB 7.8 splits the versions of a
  // key between two files of a level. If the first one has an older range
  // deletion of the key, its Get does not look into the second. So it only
  // reads by iterators, and not at all in Merge.
  bool has_ranges = false;
};

// One of the two engines, with a database open or not. Errors fail the test.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void Open(const std::string& path, const Setting& setting) = 0;
  virtual void Close() = 0;
  virtual void Write(const std::vector<Update>& batch, bool disable_wal) = 0;
  virtual void Flush() = 0;
  // Null for all keys.
  virtual void Compact(const std::string* begin, const std::string* end) = 0;
  virtual const void* TakeSnapshot() = 0;
  virtual void ReleaseSnapshot(const void* snapshot) = 0;
  // At a snapshot, or null for now.
  virtual EntryList Scan(const void* snapshot) = 0;
  // Backwards, but the list is in order.
  virtual EntryList ScanBackward(const void* snapshot) = 0;
  // Returns the value, or "NotFound".
  virtual std::string Get(const std::string& key, const void* snapshot) = 0;
};

class VarveEngine : public Engine {
 public:
  explicit VarveEngine(Rng* random) : random_(*random) {}

  void Open(const std::string& path, const Setting& setting) override {
    Options options = TinyOptions();
    options.merge_operator = FindMergeOperator(setting.name);
    ASSERT_NE(options.merge_operator, nullptr);
    options.max_successive_merges = random_.Pick<size_t>({0, 0, 1, 5});
    options.target_file_size_base = random_.Pick<uint64_t>({4096, 64 << 10});
    options.compression =
        AllCompressions()[random_.Below(AllCompressions().size())].second;
    if (random_.OneIn(2)) options.filter_policy = NewBloomFilterPolicy(10);
    options.block_size = random_.Pick<size_t>({256, 1 << 10, 4 << 10});
    options.max_subcompactions = random_.Between(1, 3);
    ASSERT_TRUE(Ok(setting.read_only ? DB::OpenForReadOnly(options, path, &db_)
                                     : DB::Open(options, path, &db_)));
  }
  void Close() override {
    EXPECT_TRUE(Ok(db_->Close()));
    db_.reset();
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    WriteBatch bytes;
    for (const Update& update : batch) {
      switch (update.kind) {
        case Update::Kind::kPut:
          bytes.Put(update.key, update.value);
          break;
        case Update::Kind::kMerge:
          bytes.Merge(update.key, update.value);
          break;
        case Update::Kind::kDelete:
          bytes.Delete(update.key);
          break;
        case Update::Kind::kSingleDelete:
          bytes.SingleDelete(update.key);
          break;
        case Update::Kind::kDeleteRange:
          bytes.DeleteRange(update.key, update.value);
      }
    }
    WriteOptions options;
    options.disable_wal = disable_wal;
    EXPECT_TRUE(Ok(db_->Write(options, &bytes)));
  }
  void Flush() override { EXPECT_TRUE(Ok(db_->Flush({}))); }
  void Compact(const std::string* begin, const std::string* end) override {
    CompactRangeOptions options;
    options.rewrite_bottommost_level = random_.OneIn(2);
    const Slice first = begin == nullptr ? Slice() : Slice(*begin);
    const Slice last = end == nullptr ? Slice() : Slice(*end);
    EXPECT_TRUE(
        Ok(db_->CompactRange(options, begin == nullptr ? nullptr : &first,
                             end == nullptr ? nullptr : &last)));
  }
  const void* TakeSnapshot() override { return db_->GetSnapshot(); }
  void ReleaseSnapshot(const void* snapshot) override {
    db_->ReleaseSnapshot(static_cast<const Snapshot*>(snapshot));
  }
  EntryList Scan(const void* snapshot) override {
    EntryList entries;
    EXPECT_TRUE(Ok(ScanForward(db_.get(), At(snapshot), &entries)));
    return entries;
  }
  EntryList ScanBackward(const void* snapshot) override {
    EntryList entries;
    EXPECT_TRUE(Ok(test::ScanBackward(db_.get(), At(snapshot), &entries)));
    return entries;
  }
  std::string Get(const std::string& key, const void* snapshot) override {
    std::string value;
    Status s;
    if (random_.OneIn(2)) {
      s = db_->Get(At(snapshot), key, &value);
    } else {
      const Slice keys[] = {key};
      db_->MultiGet(At(snapshot), 1, keys, &value, &s);
    }
    return s.ok() ? value : s.IsNotFound() ? "NotFound" : s.ToString();
  }

 private:
  static ReadOptions At(const void* snapshot) {
    ReadOptions options;
    options.snapshot = static_cast<const Snapshot*>(snapshot);
    return options;
  }

  Rng& random_;
  std::unique_ptr<DB> db_;
};

class RocksDbEngine : public Engine, public RocksDbLibrary {
 public:
  explicit RocksDbEngine(Rng* random) : random_(*random) {}

  void Open(const std::string& path, const Setting& setting) override {
    void* const defaults = Call<void*>("options_create");
    options_ = Call<void*>("options_create");
    has_ranges_ = setting.has_ranges;
    const std::string text = RandomOptions(setting);
    CallChecked<void>("get_options_from_string", defaults, text.c_str(),
                      options_);
    Call<void>("options_destroy", defaults);
    if (setting.name == "bytesor") {
      void* const null = nullptr;
      Call<void>("options_set_merge_operator", options_,
                 Call<void*>("mergeoperator_create", null, &FreeNothing,
                             &OrFully, &OrPartially, null, &OrName));
    }
    db_ = setting.read_only
              ? CallChecked<void*>("open_for_read_only", options_, path.c_str(),
                                   static_cast<unsigned char>(0))
              : CallChecked<void*>("open", options_, path.c_str());
    ASSERT_NE(db_, nullptr) << text;
    read_options_ = Call<void*>("readoptions_create");
  }
  void Close() override {
    Call<void>("close", db_);
    db_ = nullptr;
    Call<void>("readoptions_destroy", read_options_);
    Call<void>("options_destroy", options_);
  }
  void Write(const std::vector<Update>& batch, bool disable_wal) override {
    void* const bytes = Call<void*>("writebatch_create");
    for (const Update& update : batch) {
      const std::string& key = update.key;
      const std::string& value = update.value;
      switch (update.kind) {
        case Update::Kind::kPut:
          Call<void>("writebatch_put", bytes, key.data(), key.size(),
                     value.data(), value.size());
          break;
        case Update::Kind::kMerge:
          Call<void>("writebatch_merge", bytes, key.data(), key.size(),
                     value.data(), value.size());
          break;
        case Update::Kind::kDelete:
          Call<void>("writebatch_delete", bytes, key.data(), key.size());
          break;
        case Update::Kind::kSingleDelete:
          Call<void>("writebatch_singledelete", bytes, key.data(), key.size());
          break;
        case Update::Kind::kDeleteRange:
          Call<void>("writebatch_delete_range", bytes, key.data(), key.size(),
                     value.data(), value.size());
      }
    }
    void* const options = Call<void*>("writeoptions_create");
    Call<void>("writeoptions_disable_WAL", options, disable_wal ? 1 : 0);
    CallChecked<void>("write", db_, options, bytes);
    Call<void>("writeoptions_destroy", options);
    Call<void>("writebatch_destroy", bytes);
  }
  void Flush() override {
    void* const options = Call<void*>("flushoptions_create");
    CallChecked<void>("flush", db_, options);
    Call<void>("flushoptions_destroy", options);
  }
  void Compact(const std::string* begin, const std::string* end) override {
    const char* const none = nullptr;
    Call<void>("compact_range", db_, begin == nullptr ? none : begin->data(),
               begin == nullptr ? size_t{0} : begin->size(),
               end == nullptr ? none : end->data(),
               end == nullptr ? size_t{0} : end->size());
  }
  const void* TakeSnapshot() override {
    return Call<const void*>("create_snapshot", db_);
  }
  void ReleaseSnapshot(const void* snapshot) override {
    Call<void>("release_snapshot", db_, snapshot);
  }
  EntryList Scan(const void* snapshot) override {
    return Walk(snapshot, "iter_seek_to_first", "iter_next");
  }
  EntryList ScanBackward(const void* snapshot) override {
    EntryList entries = Walk(snapshot, "iter_seek_to_last", "iter_prev");
    std::reverse(entries.begin(), entries.end());
    return entries;
  }
  std::string Get(const std::string& key, const void* snapshot) override {
    Call<void>("readoptions_set_snapshot", read_options_, snapshot);
    if (has_ranges_) return Find(key);
    size_t size = 0;
    char* const value = CallChecked<char*>("get", db_, read_options_,
                                           key.data(), key.size(), &size);
    if (value == nullptr) return "NotFound";
    std::string copy(value, size);
    Call<void>("free", value);
    return copy;
  }

 private:
  std::string Find(const std::string& key) {
    void* const it = Call<void*>("create_iterator", db_, read_options_);
    Call<void>("iter_seek", it, key.data(), key.size());
    std::string value = "NotFound";
    if (Call<unsigned char>("iter_valid", it) != 0) {
      size_t size = 0;
      const char* found = Call<const char*>("iter_key", it, &size);
      if (Slice(found, size) == Slice(key)) {
        found = Call<const char*>("iter_value", it, &size);
        value.assign(found, size);
      }
    }
    CallChecked<void>("iter_get_error", it);
    Call<void>("iter_destroy", it);
    return value;
  }
  EntryList Walk(const void* snapshot, const char* seek, const char* step) {
    EntryList entries;
    Call<void>("readoptions_set_snapshot", read_options_, snapshot);
    void* const it = Call<void*>("create_iterator", db_, read_options_);
    for (Call<void>(seek, it); Call<unsigned char>("iter_valid", it) != 0;
         Call<void>(step, it)) {
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
  std::string RandomOptions(const Setting& setting) {
    std::string text =
        "create_if_missing=true;write_buffer_size=65536;"
        "max_bytes_for_level_base=131072;target_file_size_base=";
    text += std::to_string(random_.Pick({4096, 65536}));
    if (setting.name != "bytesor") text += ";merge_operator=" + setting.name;
    if (!has_ranges_) {
      text += ";max_successive_merges=";
      text += std::to_string(random_.Pick({0, 0, 5}));
    }
    // Keeps the logs that it recovered instead of flushing them.
    if (random_.OneIn(2)) text += ";avoid_flush_during_recovery=true";
    text += ";compression=";
    text += random_.Pick<const char*>(
        {"kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"});
    text += ";block_based_table_factory={block_size=";
    text += std::to_string(random_.Pick({256, 1024, 4096}));
    text += ";format_version=" + std::to_string(random_.Between(2, 5));
    text += random_.OneIn(2) ? ";filter_policy=bloomfilter:10:false" : "";
    return text + "};";
  }

  Rng& random_;
  void* db_ = nullptr;
  void* options_ = nullptr;
  void* read_options_ = nullptr;
  bool has_ranges_ = false;
};

// ---- Sessions ---------------------------------------------------------------

// The parameter is a merge operator's name.
class MergeInteropTest : public ::testing::TestWithParam<const char*> {
 protected:
  MergeInteropTest()
      : random_(TestSeed()), varve_(&random_), rocksdb_(&random_) {}

  static constexpr int kKeys = 300;

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
    engine->Compact(random_.OneIn(2) ? nullptr : &begin,
                    random_.OneIn(2) ? nullptr : &end);
    ++compactions_;
  }

  void Step(Engine* engine, bool disable_wal) {
    if (random_.OneIn(150)) engine->Flush();
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
    ASSERT_TRUE(SameEntries(expected, engine->Scan(snapshot)));
    ASSERT_TRUE(SameEntries(expected, engine->ScanBackward(snapshot)))
        << "backward";
    for (int i = 0; i < gets; ++i) {
      const std::string key = random_.OneIn(8) ? OnceKey() : RandomKey();
      const auto place = model.find(key);
      ASSERT_EQ(Hex(engine->Get(key, snapshot)),
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
    Engine* const engine =
        random_.OneIn(2) ? static_cast<Engine*>(&varve_) : &rocksdb_;
    Engine* const other =
        engine == &varve_ ? static_cast<Engine*>(&rocksdb_) : &varve_;
    SCOPED_TRACE(engine == &varve_ ? "Varve wrote" : "RocksDB wrote");
    Setting setting{GetParam(), false, has_ranges_};
    ASSERT_NO_FATAL_FAILURE(engine->Open(path_, setting));
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
    ASSERT_NO_FATAL_FAILURE(other->Open(path_, setting));
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
  VarveEngine varve_;
  RocksDbEngine rocksdb_;
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
  ASSERT_TRUE(rocksdb_.loaded());
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
