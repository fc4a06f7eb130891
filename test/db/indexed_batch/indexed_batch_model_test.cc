// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: reads of an indexed batch, alone and over a database, are what they
// would be once the batch was written. Method: random updates, save points and
// reads of three families with different comparators, and iterators that are
// kept over updates, beside lists of updates and std::map.

#include "table/block/internal_key.h"
#include "test/testing/comparators.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "varve/column_family.h"
#include "varve/merge_operator.h"
#include "varve/write_batch_with_index.h"

namespace varve::test {
namespace {

struct Update {
  ValueType type;
  std::string key;
  std::string value;  // Or the end of a range.
};

// The order of a family.
struct Before {
  const Comparator* comparator = nullptr;
  bool operator()(const std::string& a, const std::string& b) const {
    return comparator->Compare(a, b) < 0;
  }
};
using OrderedEntries = std::map<std::string, std::string, Before>;

struct Family {
  ColumnFamilyHandle* handle = nullptr;
  OrderedEntries base;
  std::vector<Update> updates;

  bool IsBefore(const std::string& a, const std::string& b) const {
    return base.key_comp()(a, b);
  }
  bool Covers(const Update& update, const std::string& key) const {
    return update.type == ValueType::kRangeDeletion &&
           !IsBefore(key, update.key) && IsBefore(key, update.value);
  }
  // The updates of the key that are not deleted by ranges, newest first, and
  // whether a range ends them.
  std::pair<std::vector<Update>, bool> Visible(const std::string& key) const {
    std::vector<Update> visible;
    for (auto update = updates.rbegin(); update != updates.rend(); ++update) {
      if (Covers(*update, key)) return {visible, true};
      if (update->type != ValueType::kRangeDeletion && update->key == key) {
        visible.push_back(*update);
      }
    }
    return {visible, false};
  }
  // The value after the updates, from `value` on.
  std::optional<std::string> Apply(const std::string& key,
                                   std::optional<std::string> value) const {
    for (const Update& update : updates) {
      if (Covers(update, key)) value.reset();
      if (update.type == ValueType::kRangeDeletion || update.key != key) {
        continue;
      }
      if (update.type == ValueType::kValue) {
        value = update.value;
      } else if (update.type == ValueType::kMerge) {
        value = value ? *value + "," + update.value : update.value;
      } else {
        value.reset();
      }
    }
    return value;
  }
  std::optional<std::string> InBoth(const std::string& key) const {
    const auto found = base.find(key);
    return Apply(key, found == base.end()
                          ? std::nullopt
                          : std::optional<std::string>(found->second));
  }
  OrderedEntries Merged() const {
    OrderedEntries merged(base.key_comp());
    std::set<std::string> keys;
    for (const auto& [key, value] : base) keys.insert(key);
    for (const Update& update : updates) keys.insert(update.key);
    for (const std::string& key : keys) {
      if (const auto value = InBoth(key)) merged[key] = *value;
    }
    return merged;
  }
};

// An iterator over batch and database, beside where it must be.
struct KeptMerged {
  Family* family = nullptr;
  std::unique_ptr<ReadOptions> options;
  std::unique_ptr<Slice[]> bounds;
  std::vector<std::string> bound_keys;
  std::unique_ptr<Iterator> it;
  std::optional<std::pair<std::string, std::string>> at;
};

// An iterator over the batch, beside where it must be.
struct KeptUpdates {
  Family* family = nullptr;
  std::unique_ptr<WBWIIterator> it;
  std::vector<Update> at;  // The updates of its key, newest first.
  size_t place = 0;        // Among them.
};

class IndexedBatchModelTest : public DbTestBase {
 protected:
  IndexedBatchModelTest() {
    options_.merge_operator = NewStringAppendOperator();
  }

  void OpenFamilies() {
    Open();
    ColumnFamilyOptions options;
    options.merge_operator = NewStringAppendOperator();
    families_.resize(3);
    families_[0].handle = nullptr;
    options.comparator = ReverseBytewiseComparator();
    ASSERT_TRUE(
        Ok(db_->CreateColumnFamily(options, "down", &families_[1].handle)));
    options.comparator = &reverse_;
    ASSERT_TRUE(
        Ok(db_->CreateColumnFamily(options, "own", &families_[2].handle)));
    families_[0].base = OrderedEntries(Before{BytewiseComparator()});
    families_[1].base = OrderedEntries(Before{ReverseBytewiseComparator()});
    families_[2].base = OrderedEntries(Before{&reverse_});
    families_[0].handle = db_->DefaultColumnFamily();
  }
  void CloseFamilies() {
    merged_.clear();
    kept_updates_.clear();
    for (size_t i : {1, 2}) delete families_[i].handle;
    families_.clear();
    db_.reset();
  }

  std::string RandomKey() {
    std::string key = random_->OneIn(20) ? "" : "key";
    const auto number = random_->Below(keys_);
    if (random_->OneIn(2)) key += static_cast<char>('a' + number % 7);
    return key + std::to_string(number);
  }
  std::string NewValue() { return "v" + std::to_string(++values_); }

  void FillBase() {
    for (Family& family : families_) {
      for (uint64_t i = random_->Below(2 * keys_ + 1); i > 0; --i) {
        const std::string key = RandomKey();
        family.base[key] = NewValue();
        ASSERT_TRUE(Ok(db_->Put({}, family.handle, key, family.base[key])));
      }
    }
  }

  void UpdateOne() {
    Family& family = families_[random_->Below(families_.size())];
    Update update{.type = random_->Pick(
                      {ValueType::kValue, ValueType::kValue, ValueType::kMerge,
                       ValueType::kDeletion, ValueType::kSingleDeletion,
                       ValueType::kRangeDeletion}),
                  .key = RandomKey(),
                  .value = NewValue()};
    ColumnFamilyHandle* const handle = family.handle;
    Status status;
    if (update.type == ValueType::kValue) {
      status = batch_.Put(handle, update.key, update.value);
    } else if (update.type == ValueType::kMerge) {
      status = batch_.Merge(handle, update.key, update.value);
    } else if (update.type == ValueType::kDeletion) {
      status = batch_.Delete(handle, update.key);
    } else if (update.type == ValueType::kSingleDeletion) {
      status = batch_.SingleDelete(handle, update.key);
    } else {
      if (!with_ranges_) return;
      update.value = RandomKey();
      if (!random_->OneIn(4) && family.IsBefore(update.value, update.key)) {
        std::swap(update.key, update.value);
      }
      status = batch_.DeleteRange(handle, update.key, update.value);
      if (family.IsBefore(update.value, update.key)) {
        ASSERT_TRUE(IsInvalidArgument(status));
        return;
      }
    }
    ASSERT_TRUE(Ok(status));
    family.updates.push_back(update);
    if (random_->OneIn(20)) {
      ASSERT_TRUE(Ok(batch_.PutLogData("blob")));
    }
  }

  void ChangeSavePoints() {
    const uint64_t choice = random_->Below(5);
    if (choice <= 1) {
      batch_.SetSavePoint();
      save_points_.emplace_back();
      for (const Family& family : families_) {
        save_points_.back().push_back(family.updates.size());
      }
    } else if (choice == 2) {
      ASSERT_EQ(batch_.PopSavePoint().ok(), !save_points_.empty());
      if (!save_points_.empty()) save_points_.pop_back();
    } else if (choice == 3 || !random_->OneIn(4)) {
      ASSERT_EQ(batch_.RollbackToSavePoint().ok(), !save_points_.empty());
      if (save_points_.empty()) return;
      bool removed = false;
      for (size_t i = 0; i < families_.size(); ++i) {
        std::vector<Update>& updates = families_[i].updates;
        removed |= updates.size() != save_points_.back()[i];
        updates.resize(save_points_.back()[i]);
      }
      save_points_.pop_back();
      if (removed) LoseIterators();
    } else {
      ClearBatch();
    }
  }
  void ClearBatch() {
    batch_.Clear();
    save_points_.clear();
    for (Family& family : families_) family.updates.clear();
    LoseIterators();
  }
  void LoseIterators() {
    for (KeptUpdates& kept : kept_updates_) {
      EXPECT_FALSE(kept.it->Valid());
      if (!kept.at.empty()) {
        EXPECT_TRUE(IsAborted(kept.it->status()));
      }
      kept.at.clear();
    }
  }

  void CheckGets() {
    const Family& family = families_[random_->Below(families_.size())];
    std::vector<std::string> keys;
    for (int i = 0; i < 4; ++i) keys.push_back(RandomKey());
    for (const std::string& key : keys) {
      SCOPED_TRACE(key);
      const auto [visible, is_covered] = family.Visible(key);
      std::string value;
      const Status status = batch_.GetFromBatch(family.handle, {}, key, &value);
      const bool needs_base =
          !is_covered && !visible.empty() &&
          std::all_of(visible.begin(), visible.end(), [](const Update& u) {
            return u.type == ValueType::kMerge;
          });
      ASSERT_EQ(status.IsIncomplete(), needs_base);
      if (!needs_base) {
        const auto expected = family.Apply(key, std::nullopt);
        ASSERT_EQ(status.ok(), expected.has_value()) << status.ToString();
        ASSERT_EQ(value, expected.value_or(""));
      }
      ExpectInBoth(
          family, key,
          batch_.GetFromBatchAndDB(db_.get(), {}, family.handle, key, &value),
          value);
    }
    std::vector<std::string> values;
    const auto statuses = batch_.MultiGetFromBatchAndDB(
        db_.get(), {}, family.handle, {keys.begin(), keys.end()}, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      ExpectInBoth(family, keys[i], statuses[i], values[i]);
    }
  }
  static void ExpectInBoth(const Family& family, const std::string& key,
                           const Status& status, const std::string& value) {
    const auto expected = family.InBoth(key);
    ASSERT_EQ(status.ok(), expected.has_value()) << status.ToString();
    ASSERT_EQ(status.IsNotFound(), !expected.has_value());
    ASSERT_EQ(value, expected.value_or(""));
  }

  // ---- Iterators over batch and database ----

  void AddMerged() {
    KeptMerged kept;
    kept.family = &families_[random_->Below(families_.size())];
    kept.options = std::make_unique<ReadOptions>();
    kept.bounds = std::make_unique<Slice[]>(2);
    kept.bound_keys = {RandomKey(), RandomKey()};
    kept.bounds[0] = kept.bound_keys[0];
    kept.bounds[1] = kept.bound_keys[1];
    if (random_->OneIn(2)) {
      kept.options->iterate_lower_bound = &kept.bounds[0];
    }
    if (random_->OneIn(2)) {
      kept.options->iterate_upper_bound = &kept.bounds[1];
    }
    kept.it = batch_.NewIteratorWithBase(
        kept.family->handle,
        db_->NewIterator(*kept.options, kept.family->handle),
        kept.options.get());
    merged_.push_back(std::move(kept));
  }
  // The entries that the iterator can be at.
  static OrderedEntries InBounds(const KeptMerged& kept) {
    OrderedEntries entries = kept.family->Merged();
    const Slice* const lower = kept.options->iterate_lower_bound;
    const Slice* const upper = kept.options->iterate_upper_bound;
    std::erase_if(entries, [&](const auto& entry) {
      return (lower != nullptr &&
              kept.family->IsBefore(entry.first, lower->ToString())) ||
             (upper != nullptr &&
              !kept.family->IsBefore(entry.first, upper->ToString()));
    });
    return entries;
  }
  void MoveMerged() {
    if (merged_.empty()) return;
    KeptMerged& kept = merged_[random_->Below(merged_.size())];
    const OrderedEntries entries = InBounds(kept);
    const std::string target = RandomKey();
    auto expected = entries.end();
    const auto before = [&](OrderedEntries::const_iterator place) {
      return place == entries.begin() ? entries.end() : std::prev(place);
    };
    const uint64_t move = random_->Below(kept.at ? 12 : 4);
    if (move == 0) {
      kept.it->SeekToFirst();
      expected = entries.begin();
    } else if (move == 1) {
      kept.it->SeekToLast();
      expected = before(entries.end());
    } else if (move == 2) {
      kept.it->Seek(target);
      expected = entries.lower_bound(target);
    } else if (move == 3) {
      kept.it->SeekForPrev(target);
      expected = before(entries.upper_bound(target));
    } else if (move == 4) {
      // The target is the iterator's own.
      kept.it->Seek(kept.it->key());
      expected = entries.lower_bound(kept.at->first);
    } else if (move == 5) {
      kept.it->SeekForPrev(kept.it->key());
      expected = before(entries.upper_bound(kept.at->first));
    } else if (move % 2 == 0) {
      kept.it->Next();
      expected = entries.upper_bound(kept.at->first);
    } else {
      kept.it->Prev();
      expected = before(entries.lower_bound(kept.at->first));
    }
    kept.at.reset();
    if (expected != entries.end()) kept.at = *expected;
    CheckMerged(kept);
  }
  static void CheckMerged(const KeptMerged& kept) {
    ASSERT_TRUE(Ok(kept.it->status()));
    ASSERT_EQ(kept.it->Valid(), kept.at.has_value());
    if (!kept.at) return;
    ASSERT_EQ(kept.it->key(), Slice(kept.at->first));
    ASSERT_EQ(kept.it->value(), Slice(kept.at->second));
  }

  // ---- Iterators over the batch ----

  // The keys with updates to be shown, and these, newest first.
  std::map<std::string, std::vector<Update>, Before> Shown(
      const Family& family) const {
    std::map<std::string, std::vector<Update>, Before> shown(
        family.base.key_comp());
    for (const Update& update : family.updates) {
      auto visible = family.Visible(update.key).first;
      if (overwrite_) {
        const auto last = std::find_if(
            visible.begin(), visible.end(),
            [](const Update& u) { return u.type != ValueType::kMerge; });
        if (last != visible.end()) visible.erase(last + 1, visible.end());
      }
      if (!visible.empty()) shown[update.key] = visible;
    }
    return shown;
  }
  void MoveUpdates() {
    if (kept_updates_.size() < 4) {
      Family& family = families_[random_->Below(families_.size())];
      kept_updates_.push_back({.family = &family,
                               .it = batch_.NewIterator(family.handle),
                               .at = {}});
    }
    KeptUpdates& kept = kept_updates_[random_->Below(kept_updates_.size())];
    const auto shown = Shown(*kept.family);
    const std::string target = RandomKey();
    auto expected = shown.end();
    const auto before = [&](auto place) {
      return place == shown.begin() ? shown.end() : std::prev(place);
    };
    const uint64_t move = random_->Below(kept.at.empty() ? 4 : 10);
    bool forward = move % 2 == 0;
    if (move == 0) {
      kept.it->SeekToFirst();
      expected = shown.begin();
    } else if (move == 1) {
      kept.it->SeekToLast();
      expected = before(shown.end());
    } else if (move == 2) {
      kept.it->Seek(target);
      expected = shown.lower_bound(target);
    } else if (move == 3) {
      kept.it->SeekForPrev(target);
      expected = before(shown.upper_bound(target));
    } else if (forward) {
      kept.it->Next();
      if (++kept.place < kept.at.size()) return CheckUpdates(kept);
      expected = shown.upper_bound(kept.at[0].key);
    } else {
      kept.it->Prev();
      if (kept.place-- > 0) return CheckUpdates(kept);
      expected = before(shown.lower_bound(kept.at[0].key));
    }
    kept.at.clear();
    if (expected != shown.end()) {
      kept.at = expected->second;
      kept.place = forward ? 0 : kept.at.size() - 1;
    }
    CheckUpdates(kept);
  }
  static void CheckUpdates(const KeptUpdates& kept) {
    ASSERT_EQ(kept.it->Valid(), !kept.at.empty());
    if (kept.at.empty()) return;
    const Update& expected = kept.at[kept.place];
    const WriteEntry entry = kept.it->Entry();
    const bool has_value = expected.type == ValueType::kValue ||
                           expected.type == ValueType::kMerge;
    ASSERT_EQ(entry.key, Slice(expected.key));
    ASSERT_EQ(entry.value, Slice(has_value ? expected.value : ""));
    const std::map<ValueType, WriteType> types = {
        {ValueType::kValue, kPutRecord},
        {ValueType::kMerge, kMergeRecord},
        {ValueType::kDeletion, kDeleteRecord},
        {ValueType::kSingleDeletion, kSingleDeleteRecord}};
    ASSERT_EQ(entry.type, types.at(expected.type));
  }

  // Writes the batch, and compares the database with what the batch said.
  void WriteBatchAndCompare() {
    merged_.clear();
    ASSERT_TRUE(Ok(db_->Write({}, batch_.GetWriteBatch())));
    for (Family& family : families_) {
      family.base = family.Merged();
      EntryList entries;
      const auto it = db_->NewIterator({}, family.handle);
      auto expected = family.base.begin();
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
        ASSERT_NE(expected, family.base.end());
        ASSERT_EQ(it->key(), Slice(expected->first));
        ASSERT_EQ(it->value(), Slice(expected->second));
      }
      ASSERT_EQ(expected, family.base.end());
    }
    ClearBatch();
  }

  void Run(uint64_t seed, int steps) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng random(seed);
    random_ = &random;
    std::filesystem::remove_all(path_);
    OpenFamilies();
    overwrite_ = random.OneIn(2);
    with_ranges_ = !random.OneIn(4);
    // More keys than a chunk of the order has, in some runs.
    keys_ = random.Pick<uint64_t>({3, 20, 300});
    batch_ = WriteBatchWithIndex(BytewiseComparator(), 0, overwrite_);
    save_points_.clear();
    FillBase();
    for (int i = 0; i < steps && !HasFailure(); ++i) {
      const uint64_t choice = random.Below(40);
      if (choice < 14) {
        UpdateOne();
      } else if (choice < 18) {
        CheckGets();
      } else if (choice < 19) {
        if (keys_ < 300 || random.OneIn(20)) ChangeSavePoints();
      } else if (choice < 20) {
        if (merged_.size() < 6) AddMerged();
        if (random.OneIn(10)) merged_.clear();
      } else if (choice < 30) {
        MoveMerged();
      } else {
        MoveUpdates();
      }
      if (random.OneIn(400)) WriteBatchAndCompare();
      for (const KeptMerged& kept : merged_) CheckMerged(kept);
      for (const KeptUpdates& kept : kept_updates_) CheckUpdates(kept);
    }
    CloseFamilies();
    batch_ = WriteBatchWithIndex();
  }

  const ReverseComparator reverse_;
  Rng* random_ = nullptr;
  bool overwrite_ = false;
  bool with_ranges_ = true;
  uint64_t keys_ = 0;
  int values_ = 0;
  std::vector<Family> families_;
  WriteBatchWithIndex batch_;
  std::vector<std::vector<size_t>> save_points_;
  std::vector<KeptMerged> merged_;
  std::vector<KeptUpdates> kept_updates_;
};

TEST_F(IndexedBatchModelTest, RandomBatches) {
  const uint64_t seed = TestSeed();
  const int runs = EnvironmentInt("VARVE_INDEXED_BATCH_RUNS", 12);
  for (int i = 0; i < runs && !HasFailure(); ++i) {
    Run(seed + static_cast<uint64_t>(i), 1200);
  }
}

}  // namespace
}  // namespace varve::test
