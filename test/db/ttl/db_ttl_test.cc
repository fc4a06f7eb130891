// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a DBWithTTL stores the time of each write as RocksDB does, shows values
// without it everywhere, and its compactions remove what is too old, and
// nothing else. Method: a date that the test moves; the bytes as a plain DB
// shows them; random updates beside a model.

#include "varve/db_ttl.h"

#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/env/date_env.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/compaction_filter.h"
#include "varve/merge_operator.h"
#include "varve/write_batch.h"

namespace varve::test {
namespace {

constexpr uint32_t kBegin = 1700000000;
constexpr CompactRangeOptions kRewrite{.rewrite_bottommost_level = true};

std::string Timed(const std::string& value, uint32_t time_s = kBegin) {
  std::string timed = value;
  for (int i = 0; i < 4; ++i) {
    timed += static_cast<char>(time_s >> (8 * i) & 0xFF);
  }
  return timed;
}

class TtlDbTest : public ::testing::Test {
 protected:
  TtlDbTest() {
    options_.env = &env_;
    options_.merge_operator = NewStringAppendOperator();
  }
  void SetUp() override { Open(100); }
  void TearDown() override {
    db_.reset();
    plain_.reset();
  }

  void Open(int32_t ttl, bool read_only = false) {
    db_.reset();
    plain_.reset();
    ASSERT_TRUE(Ok(DBWithTTL::Open(options_, path_, &db_, ttl, read_only)));
  }
  // Opens it as a database without TTL, which shows the times.
  void OpenPlain() {
    db_.reset();
    Options options = TinyOptions();
    ASSERT_TRUE(Ok(DB::Open(options, path_, &plain_)));
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(Ok(db_->Put({}, key, value)));
  }
  void Compact(ColumnFamilyHandle* family = nullptr) {
    ASSERT_TRUE(Ok(db_->CompactRange(kRewrite, family, nullptr, nullptr)));
  }
  std::string Get(const std::string& key,
                  ColumnFamilyHandle* family = nullptr) {
    std::string value;
    const Status status = db_->Get({}, family, key, &value);
    PinnableSlice pinned;
    EXPECT_EQ(db_->Get({}, family, key, &pinned).ToString(), status.ToString());
    const PinnableSlice moved = std::move(pinned);
    EXPECT_EQ(moved.ToString(), value);
    return status.ok()           ? value
           : status.IsNotFound() ? "none"
                                 : status.ToString();
  }

  DateEnv env_{kBegin};
  TempDir dir_;
  const std::string path_ = dir_.Sub("db");
  Options options_ = TinyOptions();
  std::unique_ptr<DBWithTTL> db_;
  std::unique_ptr<DB> plain_;
};

TEST_F(TtlDbTest, ValuesEndInTheTimeOfTheirWrite) {
  Put("a", "1");
  env_.now_s += 258;
  WriteBatch batch;
  batch.Put("b", "");
  batch.Merge("c", "3");
  batch.PutLogData("note");
  ASSERT_TRUE(Ok(db_->Write({}, &batch)));
  EXPECT_EQ(batch.Count(), 2U);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("b"), "");
  EXPECT_EQ(Get("c"), "3");
  OpenPlain();
  const EntryList stored = {{"a", Timed("1")}, {"b", Timed("", kBegin + 258)}};
  for (const auto& [key, value] : stored) {
    std::string found;
    ASSERT_TRUE(Ok(plain_->Get({}, key, &found)));
    EXPECT_EQ(found, value);
  }
}

TEST_F(TtlDbTest, EveryReadShowsValuesWithoutTheTime) {
  Put("a", "1");
  ASSERT_TRUE(Ok(db_->Flush({})));
  Put("b", "22");
  ASSERT_TRUE(Ok(db_->Merge({}, "b", "3")));
  EXPECT_EQ(Get("b"), "22,3");
  const Slice keys[] = {"a", "b", "c"};
  ColumnFamilyHandle* const families[] = {nullptr, nullptr, nullptr};
  std::string values[3];
  PinnableSlice pinned[3];
  Status statuses[3];
  const auto check = [&](auto* read) {
    EXPECT_TRUE(Ok(statuses[0]));
    EXPECT_EQ(read[0], Slice("1"));
    EXPECT_EQ(read[1], Slice("22,3"));
    EXPECT_TRUE(statuses[2].IsNotFound());
  };
  db_->MultiGet({}, 3, keys, values, statuses);
  check(values);
  db_->MultiGet({}, 3, keys, pinned, statuses);
  check(pinned);
  db_->MultiGet({}, nullptr, 3, keys, values, statuses);
  check(values);
  db_->MultiGet({}, nullptr, 3, keys, pinned, statuses);
  check(pinned);
  db_->MultiGet({}, 3, families, keys, values, statuses);
  check(values);
  db_->MultiGet({}, 3, families, keys, pinned, statuses);
  check(pinned);
  auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "first next next last prev seek:b for_prev:a"),
            "a=1 b=22,3 end b=22,3 a=1 b=22,3 a=1");
  Put("c", "4");
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "last"), "c=4");
  std::vector<std::unique_ptr<Iterator>> iterators;
  ASSERT_TRUE(Ok(db_->NewIterators({}, {nullptr}, &iterators)));
  EXPECT_EQ(Walk(iterators[0].get(), "first"), "a=1");
  bool found = false;
  EXPECT_TRUE(db_->KeyMayExist({}, nullptr, "c", &values[0], &found));
  EXPECT_TRUE(found);
  EXPECT_EQ(values[0], "4");
  EXPECT_FALSE(db_->KeyMayExist({}, nullptr, "d", nullptr, nullptr));
  GetMergeOperandsOptions limits{.expected_max_number_of_operands = 3};
  int count = 0;
  ASSERT_TRUE(
      Ok(db_->GetMergeOperands({}, nullptr, "b", pinned, &limits, &count)));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(pinned[0], Slice("22"));
  EXPECT_EQ(pinned[1], Slice("3"));
}

TEST_F(TtlDbTest, CompactionsRemoveWhatIsTooOld) {
  Put("a", "1");
  env_.now_s += 60;
  Put("b", "2");
  env_.now_s += 40;
  Compact();
  EXPECT_EQ(Get("a"), "1");  // Exactly as old as it may be.
  env_.now_s += 1;
  EXPECT_EQ(Get("a"), "1");  // No compaction has passed.
  Compact();
  EXPECT_EQ(Get("a"), "none");
  EXPECT_EQ(Get("b"), "2");
  Put("b", "3");
  env_.now_s += 60;
  Compact();
  EXPECT_EQ(Get("b"), "3");
}

TEST_F(TtlDbTest, WithoutTtlNothingExpires) {
  for (const int32_t ttl : {0, -5}) {
    Open(ttl);
    Put("a", "1");
    env_.now_s += 1000000000;
    Compact();
    EXPECT_EQ(Get("a"), "1");
  }
}

TEST_F(TtlDbTest, TheTtlCanBeChanged) {
  Put("a", "1");
  int32_t ttl = 0;
  ASSERT_TRUE(Ok(db_->GetTtl(nullptr, &ttl)));
  EXPECT_EQ(ttl, 100);
  env_.now_s += 50;
  db_->SetTtl(40);
  ASSERT_TRUE(Ok(db_->GetTtl(db_->DefaultColumnFamily(), &ttl)));
  EXPECT_EQ(ttl, 40);
  Compact();
  EXPECT_EQ(Get("a"), "none");
}

TEST_F(TtlDbTest, FamiliesHaveTheirOwn) {
  ColumnFamilyHandle* never = nullptr;
  ColumnFamilyHandle* soon = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "never", &never)));
  ASSERT_TRUE(Ok(db_->CreateColumnFamilyWithTtl(options_, "soon", &soon, 10)));
  std::vector<ColumnFamilyHandle*> more;
  ASSERT_TRUE(Ok(db_->CreateColumnFamilies({{"more", options_}}, &more)));
  int32_t ttl = 0;
  ASSERT_TRUE(Ok(db_->GetTtl(more[0], &ttl)));
  EXPECT_EQ(ttl, 0);
  for (ColumnFamilyHandle* family : {never, soon}) {
    ASSERT_TRUE(Ok(db_->Put({}, family, "a", "1")));
    ASSERT_TRUE(Ok(db_->Merge({}, family, "b", "2")));
  }
  Put("a", "1");
  env_.now_s += 20;
  for (ColumnFamilyHandle* family : {never, soon}) Compact(family);
  Compact();
  EXPECT_EQ(Get("a"), "1");
  EXPECT_EQ(Get("a", never), "1");
  EXPECT_EQ(Get("a", soon), "none");
  EXPECT_EQ(Get("b", never), "2");
  delete never;
  delete soon;
  delete more[0];
  // Opened again, with the TTLs the other way round.
  db_.reset();
  const std::vector<ColumnFamilyDescriptor> families = {{"default", options_},
                                                        {"never", options_},
                                                        {"soon", options_},
                                                        {"more", options_}};
  std::vector<ColumnFamilyHandle*> handles;
  EXPECT_TRUE(DBWithTTL::Open(options_, path_, families, &handles, &db_, {0})
                  .IsInvalidArgument());
  ASSERT_TRUE(Ok(DBWithTTL::Open(options_, path_, families, &handles, &db_,
                                 {0, 10, 0, 0})));
  Compact(handles[1]);
  EXPECT_EQ(Get("a", handles[1]), "none");
  EXPECT_EQ(Get("a"), "1");
  for (ColumnFamilyHandle* handle : handles) delete handle;
}

TEST_F(TtlDbTest, MergedValuesGetTheTimeOfTheMerge) {
  ASSERT_TRUE(Ok(db_->Merge({}, "a", "1")));
  ASSERT_TRUE(Ok(db_->Flush({})));
  env_.now_s += 90;
  ASSERT_TRUE(Ok(db_->Merge({}, "a", "2")));
  Compact();
  env_.now_s += 90;
  Compact();
  EXPECT_EQ(Get("a"), "1,2");
  OpenPlain();
  std::string value;
  ASSERT_TRUE(Ok(plain_->Get({}, "a", &value)));
  EXPECT_EQ(value, Timed("1,2", kBegin + 90));
}

// A filter that removes "drop", and adds "!" to "mark".
class MarkFilter final : public CompactionFilter {
 public:
  bool Filter(int /*level*/, const Slice& key, const Slice& existing_value,
              std::string* new_value, bool* value_changed) const override {
    if (key == Slice("mark") && existing_value == Slice("m")) {
      *new_value = "m!";
      *value_changed = true;
    }
    return existing_value == Slice("drop");
  }
  const char* Name() const override { return "MarkFilter"; }
};
class MarkFactory final : public CompactionFilterFactory {
 public:
  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& /*context*/) override {
    return std::make_unique<MarkFilter>();
  }
  const char* Name() const override { return "MarkFactory"; }
};

TEST_F(TtlDbTest, TheUsersFilterSeesValuesWithoutTheTime) {
  const MarkFilter filter;
  for (const bool by_factory : {false, true}) {
    options_.compaction_filter = by_factory ? nullptr : &filter;
    options_.compaction_filter_factory =
        by_factory ? std::make_shared<MarkFactory>() : nullptr;
    Open(100);
    Put("keep", "k");
    Put("lose", "drop");
    Put("mark", "m");
    env_.now_s += 50;
    Compact();
    EXPECT_EQ(Get("keep"), "k");
    EXPECT_EQ(Get("lose"), "none");
    EXPECT_EQ(Get("mark"), "m!");
    env_.now_s += 51;  // The changed value is as old as it was.
    Compact();
    EXPECT_EQ(Get("keep"), "none");
    EXPECT_EQ(Get("mark"), "none");
  }
  db_.reset();
}

TEST_F(TtlDbTest, ValuesWithoutATimeAreCorrupt) {
  Put("b", "1");
  OpenPlain();
  ASSERT_TRUE(Ok(plain_->Put({}, "a", "123")));
  ASSERT_TRUE(Ok(plain_->Put({}, "c", Timed("", 1368146401))));
  ASSERT_TRUE(Ok(plain_->Put({}, "d", Timed("4", 1368146402))));
  plain_.reset();
  Open(100);
  std::string value = "old";
  EXPECT_TRUE(db_->Get({}, "a", &value).IsCorruption());
  EXPECT_EQ(value, "");
  EXPECT_TRUE(db_->Get({}, "c", &value).IsCorruption());
  EXPECT_EQ(Get("d"), "4");
  const Slice keys[] = {"a", "b"};
  std::string values[2];
  Status statuses[2];
  db_->MultiGet({}, 2, keys, values, statuses);
  EXPECT_TRUE(statuses[0].IsCorruption());
  EXPECT_TRUE(Ok(statuses[1]));
  auto it = db_->NewIterator({});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsCorruption());
  it->Seek("b");
  EXPECT_EQ(At(*it), "b=1");
  ASSERT_TRUE(Ok(db_->Merge({}, "a", "2")));
  EXPECT_TRUE(db_->Get({}, "a", &value).IsCorruption());
  Compact();  // Keeps what is too short.
  EXPECT_TRUE(db_->Get({}, "a", &value).IsCorruption());
}

TEST_F(TtlDbTest, OpensForReadingOnly) {
  Put("a", "1");
  Open(100, true);
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(db_->Put({}, "a", "2").IsNotSupported());
}

TEST_F(TtlDbTest, RefusesWhatADbRefuses) {
  EXPECT_TRUE(db_->Write({}, nullptr).IsInvalidArgument());
  options_.create_if_missing = false;
  std::unique_ptr<DBWithTTL> other;
  EXPECT_TRUE(DBWithTTL::Open(options_, dir_.Sub("missing"), &other)
                  .IsInvalidArgument());
  EXPECT_EQ(other, nullptr);
  const Status locked = DBWithTTL::Open(options_, path_, &other);
  EXPECT_TRUE(locked.IsBusy());
}

// A key is there if its newest write is young, or no compaction has seen it.
TEST_F(TtlDbTest, RandomWritesExpireAsInAModel) {
  Rng rng(TestSeed());
  struct Write {
    std::string value;
    uint64_t time_s;
  };
  std::map<std::string, Write> model;
  for (int step = 0; step < 2000; ++step) {
    env_.now_s += rng.Below(3);
    const std::string key = Key(static_cast<int>(rng.Below(200)));
    const std::string value = std::to_string(step);
    if (rng.OneIn(200)) {
      Compact();
      std::erase_if(model, [&](const auto& entry) {
        return entry.second.time_s + 100 < env_.now_s;
      });
    } else if (rng.OneIn(100)) {
      ASSERT_TRUE(Ok(db_->Flush({})));
    } else if (rng.OneIn(5)) {
      ASSERT_TRUE(Ok(db_->Delete({}, key)));
      model.erase(key);
    } else if (rng.OneIn(2)) {
      Put(key, value);
      model[key] = {value, env_.now_s};
    } else {
      WriteBatch batch;
      batch.Delete(Key(7));
      batch.Put(key, value);
      ASSERT_TRUE(Ok(db_->Write({}, &batch)));
      model.erase(Key(7));
      model[key] = {value, env_.now_s};
    }
  }
  Compact();
  EntryList expected;
  for (const auto& [key, write] : model) {
    if (write.time_s + 100 >= env_.now_s)
      expected.emplace_back(key, write.value);
  }
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

}  // namespace
}  // namespace varve::test
