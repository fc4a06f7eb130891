// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a comparator for which keys of different bytes are equal decides alone
// which keys are the same, wherever the engine looks for one: in memtables,
// tables, range deletions, compactions, iterators, repair. Method: random
// operations on a database and on a std::map of the same order, a new seed each
// run; both must return the bytes that were put last.

#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/merge_operator.h"

namespace varve::test {
namespace {

// Upper and lower case ASCII letters are equal, and hyphens are not seen.
std::string Fold(const Slice& key) {
  std::string folded;
  for (const char c : key.ToStringView()) {
    if (c == '-') continue;
    folded.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return folded;
}

class FoldingComparator final : public ComparatorWithoutSeparators {
 public:
  FoldingComparator() : ComparatorWithoutSeparators("test.folding") {}
  int Compare(const Slice& a, const Slice& b) const override {
    return Slice(Fold(a)).compare(Fold(b));
  }
};

// Folded key to the last form of the key and its value.
using Model = std::map<std::string, std::pair<std::string, std::string>>;

EntryList ToEntries(const Model& model) {
  EntryList entries;
  for (const auto& [folded, entry] : model) entries.push_back(entry);
  return entries;
}

class DbComparatorTest : public DbTestBase {
 protected:
  DbComparatorTest() { options_.comparator = &comparator_; }

  // Returns one of 300 keys, in one of its forms.
  std::string RandomKey() {
    std::string key = "key" + std::to_string(rng_.Below(300));
    for (char& c : key) {
      if (c >= 'a' && rng_.OneIn(2)) c = static_cast<char>(c - 32);
    }
    while (rng_.OneIn(2)) key.insert(rng_.Below(key.size() + 1), "-");
    return key;
  }

  void Update() {
    const std::string key = RandomKey();
    const uint64_t kind = rng_.Below(100);
    if (kind < 75) {
      const std::string value = rng_.Bytes(rng_.Below(300));
      Put(key, value);
      model_[Fold(key)] = {key, value};
    } else if (kind < 97) {
      Delete(key);
      model_.erase(Fold(key));
    } else {
      std::string end = RandomKey();
      std::string begin = key;
      if (Fold(end) < Fold(begin)) std::swap(begin, end);
      ASSERT_TRUE(Ok(db_->DeleteRange({}, begin, end)));
      model_.erase(model_.lower_bound(Fold(begin)),
                   model_.lower_bound(Fold(end)));
    }
  }

  void ExpectReads(const Model& model, const ReadOptions& read) {
    EXPECT_TRUE(HasEntries(db_.get(), ToEntries(model), read));
    std::vector<std::string> keys(20);
    for (std::string& key : keys) key = RandomKey();
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = db_->MultiGet(read, slices, &values);
    const auto iterator = db_->NewIterator(read);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = model.find(Fold(keys[i]));
      std::string value;
      const Status status = db_->Get(read, keys[i], &value);
      EXPECT_EQ(status.IsNotFound(), found == model.end()) << keys[i];
      EXPECT_EQ(statuses[i].IsNotFound(), found == model.end()) << keys[i];
      if (found != model.end()) {
        EXPECT_EQ(value, found->second.second) << keys[i];
        EXPECT_EQ(values[i], found->second.second) << keys[i];
      }
      iterator->Seek(keys[i]);
      const auto at = model.lower_bound(Fold(keys[i]));
      ASSERT_EQ(iterator->Valid(), at != model.end()) << keys[i];
      if (iterator->Valid()) {
        EXPECT_EQ(iterator->key(), Slice(at->second.first));
      }
      iterator->SeekForPrev(keys[i]);
      const auto behind = model.upper_bound(Fold(keys[i]));
      ASSERT_EQ(iterator->Valid(), behind != model.begin()) << keys[i];
      if (iterator->Valid()) {
        EXPECT_EQ(iterator->key(), Slice(std::prev(behind)->second.first));
      }
    }
  }

  Rng rng_{TestSeed()};
  const FoldingComparator comparator_;
  Model model_;
};

TEST_F(DbComparatorTest, EqualKeysOfOtherBytesAreOneKey) {
  Open();
  std::list<std::pair<const Snapshot*, Model>> snapshots;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 50; ++i) Update();
    ASSERT_FALSE(HasFailure());
    if (rng_.OneIn(4)) snapshots.emplace_back(db_->GetSnapshot(), model_);
    const uint64_t action = rng_.Below(10);
    if (action < 3) Flush();
    if (action == 3) CompactAll();
    if (snapshots.size() > 3 || action == 4) {
      for (const auto& [snapshot, model] : snapshots) {
        ExpectReads(model, {.snapshot = snapshot});
        db_->ReleaseSnapshot(snapshot);
      }
      snapshots.clear();
    }
    if (action == 4) Reopen();
    if (action == 5 && snapshots.empty()) {
      Close();
      ASSERT_TRUE(Ok(RepairDB(path_, options_)));
      Open();
    }
    ExpectReads(model_, {});
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  for (const auto& [snapshot, model] : snapshots) {
    db_->ReleaseSnapshot(snapshot);
  }
}

TEST_F(DbComparatorTest, AMergedKeyIsThatOfItsNewestOperand) {
  options_.merge_operator = NewStringAppendOperator();
  Do("open, put key 0, merge Key 1, merge K-EY 2");
  const EntryList expected = {{"K-EY", "0,1,2"}};
  EXPECT_TRUE(HasEntries(db_.get(), expected));
  Flush();
  EXPECT_TRUE(HasEntries(db_.get(), expected));
}

TEST_F(DbComparatorTest, BoundsAreOfItsOrder) {
  Open();
  for (const char* key : {"a", "B", "c", "D", "e"}) Put(key, key);
  for (const bool flushed : {false, true}) {
    if (flushed) CompactAll();
    const Slice lower = "b-";
    const Slice upper = "-E-";
    ReadOptions read;
    read.iterate_lower_bound = &lower;
    read.iterate_upper_bound = &upper;
    EXPECT_TRUE(HasEntries(db_.get(), {{"B", "B"}, {"c", "c"}, {"D", "D"}},
                           read, /*gets=*/false));
  }
}

TEST_F(DbComparatorTest, ADatabaseKeepsToItsComparator) {
  Open();
  Put("a", "1");
  Close();
  options_.comparator = BytewiseComparator();
  EXPECT_TRUE(IsInvalidArgument(TryOpen(), "test.folding"));
  options_.comparator = &comparator_;
  Open();
  EXPECT_EQ(Get("A"), "1");
}

// Its keys are numbers: another size would be read beyond its end.
class NumberComparator final : public ComparatorWithoutSeparators {
 public:
  NumberComparator() : ComparatorWithoutSeparators("test.number") {}
  int Compare(const Slice& a, const Slice& b) const override {
    const uint64_t x = Number(a);
    const uint64_t y = Number(b);
    return x < y ? -1 : static_cast<int>(x > y);
  }

 private:
  static uint64_t Number(const Slice& key) {
    EXPECT_EQ(key.size(), sizeof(uint64_t));
    uint64_t number = 0;
    memcpy(&number, key.data(), std::min(key.size(), sizeof(number)));
    return number;
  }
};

TEST(DbNumberComparatorTest, IsAskedAboutKeysOnly) {
  const TempDir dir;
  const NumberComparator comparator;
  Options options = TinyOptions();
  options.comparator = &comparator;
  options.create_if_missing = true;
  options.level_compaction_dynamic_level_bytes = false;
  options.disable_auto_compactions = true;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(Ok(DB::Open(options, dir.Sub("db"), &db)));
  const auto key = [](uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Ok(db->Put({}, key(i), "value")));
  }
  ASSERT_TRUE(Ok(db->CompactRange({.target_level = 2}, nullptr, nullptr)));
  // A table that has nothing else, above others.
  ASSERT_TRUE(Ok(db->DeleteRange({}, key(10), key(500))));
  ASSERT_TRUE(Ok(db->Flush({})));
  ASSERT_TRUE(Ok(db->CompactRange({}, nullptr, nullptr)));
  std::string value;
  EXPECT_TRUE(db->Get({}, key(10), &value).IsNotFound());
  EXPECT_TRUE(Ok(db->Get({}, key(500), &value)));
}

}  // namespace
}  // namespace varve::test
