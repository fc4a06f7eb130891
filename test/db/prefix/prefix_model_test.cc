// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: filters of prefixes never change what iterators and lookups show, in
// any of their modes, whatever extractors wrote the tables. Method: random
// databases, whose extractor changes while they are open, and with the filters
// at each reopening, are compared with a std::map. An iterator keeps the
// extractor that it began with. Keys come from few letters, so that most
// prefixes have some keys, and many have none.

#include "test/testing/comparators.h"
#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/transforms.h"
#include "varve/filter_policy.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

enum class Mode { kFilters, kSame, kAuto, kTotal };

class PrefixModelTest : public DbTestBase {
 protected:
  PrefixModelTest() : random_(TestSeed()) {
    options_.statistics = NewTestStatistics();
    options_.target_file_size_base = 4 << 10;
    options_.max_bytes_for_level_base = 16 << 10;
  }

  std::string RandomKey() {
    std::string key(random_.Below(6), 0);
    for (char& c : key) c = random_.Pick({'a', 'b', ':', ':', '\xFF'});
    return key;
  }

  void DrawOptions() {
    const std::shared_ptr<const SliceTransform> extractors[] = {
        nullptr,
        NewFixedPrefixTransform(1),
        NewFixedPrefixTransform(2),
        NewCappedPrefixTransform(3),
        NewNoopTransform(),
        std::make_shared<ToColonTransform>(),
    };
    options_.prefix_extractor = extractors[random_.Below(6)];
    options_.filter_policy =
        random_.OneIn(5) ? nullptr : NewBloomFilterPolicy(10);
    options_.whole_key_filtering = random_.OneIn(2);
    options_.memtable_prefix_bloom_size_ratio = random_.OneIn(2) ? 0.1 : 0;
  }

  void ChangeExtractor() {
    const char* const text =
        random_.Pick({"nullptr", "", "fixed:1", "rocksdb.FixedPrefix.2",
                      "fixed:2", "capped:3", "rocksdb.Noop"});
    ASSERT_TRUE(Ok(db_->SetOptions({{"prefix_extractor", text}})));
    ASSERT_TRUE(Ok(SetOption("prefix_extractor", text, &options_)));
  }

  void Change() {
    const std::string key = RandomKey();
    const uint64_t step = random_.Below(100);
    if (step < 55) {
      const std::string value = "v" + std::to_string(++values_) +
                                std::string(random_.Below(300), 'x');
      Put(key, value);
      entries_[key] = value;
    } else if (step < 90) {
      Delete(key);
      entries_.erase(key);
    } else if (step < 94) {
      std::string end = RandomKey();
      if (end <= key) return;
      DeleteRange(key, end);
      entries_.erase(entries_.lower_bound(key), entries_.lower_bound(end));
    } else if (step < 97) {
      Flush();
    } else if (step < 98) {
      ChangeExtractor();
    } else if (step < 99) {
      CompactAll();
    } else {
      DrawOptions();
      Reopen();
    }
  }

  static bool HasPrefix(const SliceTransform& extractor, const std::string& key,
                        const std::string& prefix) {
    return extractor.InDomain(key) && extractor.Transform(key) == Slice(prefix);
  }

  // Walks at random, and compares each step.
  void CheckWalk() {
    const Mode mode = random_.Pick({Mode::kFilters, Mode::kFilters, Mode::kSame,
                                    Mode::kAuto, Mode::kTotal});
    ReadOptions read;
    read.prefix_same_as_start = mode == Mode::kSame;
    read.auto_prefix_mode = mode == Mode::kAuto;
    read.total_order_seek = mode == Mode::kTotal;
    const std::string upper_key = RandomKey();
    const Slice upper = upper_key;
    Entries visible = entries_;
    if (random_.OneIn(2)) {
      read.iterate_upper_bound = &upper;
      visible.erase(visible.lower_bound(upper_key), visible.end());
    }
    const auto extractor = options_.prefix_extractor;
    const auto it = db_->NewIterator(read);
    auto at = visible.cend();
    std::optional<std::string> prefix;  // That the iterator may end with.
    for (int i = 0; i < 100; ++i) {
      if (random_.OneIn(100)) ChangeExtractor();
      if (random_.OneIn(100)) {
        ASSERT_TRUE(Ok(it->Refresh()));
        at = visible.cend();
      }
      const uint64_t step = random_.Next();
      const std::string target = RandomKey();
      const bool seeks = step % (at == visible.cend() ? 4 : 40) < 4;
      const bool has_target =
          seeks && step % (at == visible.cend() ? 4 : 40) >= 2;
      TakeRandomStep(step, target, visible, it.get(), &at);
      if (seeks) prefix.reset();
      if (has_target && extractor != nullptr && extractor->InDomain(target)) {
        prefix = extractor->Transform(target).ToString();
      }
      if (seeks && !has_target && mode == Mode::kSame && extractor != nullptr &&
          at != visible.cend() && extractor->InDomain(at->first)) {
        prefix = extractor->Transform(at->first).ToString();
      }
      const bool may_end = prefix && at != visible.cend() &&
                           !HasPrefix(*extractor, at->first, *prefix);
      if (mode == Mode::kSame && may_end) at = visible.cend();
      if (mode == Mode::kFilters && may_end && !it->Valid()) {
        at = visible.cend();
      }
      ASSERT_EQ(At(*it), At(visible, at))
          << "mode " << static_cast<int>(mode) << ", step " << step << ", "
          << Slice(target).ToString(true) << ", extractor "
          << (extractor != nullptr ? extractor->Name() : "none");
    }
  }

  void CheckLookups() {
    std::vector<std::string> keys(8), values;
    for (std::string& key : keys) key = RandomKey();
    const std::vector<Slice> slices(keys.begin(), keys.end());
    const auto statuses = db_->MultiGet({}, slices, &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto found = entries_.find(keys[i]);
      const std::string expected =
          found == entries_.end() ? "NotFound" : found->second;
      ASSERT_EQ(Get(keys[i]), expected);
      ASSERT_EQ(statuses[i].IsNotFound() ? "NotFound" : values[i], expected);
    }
  }

  void Run(int steps) {
    DrawOptions();
    Open();
    for (int i = 0; i < steps && !HasFatalFailure(); ++i) {
      Change();
      if (random_.OneIn(10)) CheckWalk();
      if (random_.OneIn(10)) CheckLookups();
    }
    EXPECT_TRUE(HasEntries(db_.get(), ToList(entries_)));
  }

  Rng random_;
  Entries entries_;
  uint64_t values_ = 0;
};

TEST_F(PrefixModelTest, ShowsAllEntriesOfThePrefix) {
  Run(3000);
  // The runs are not in vain.
  EXPECT_GT(options_.statistics->getTickerCount(Ticker::kPrefixFilterUseful),
            0u);
}

TEST_F(PrefixModelTest, ShowsThemUnderAForeignComparator) {
  static const UnrecognizedBytewiseComparator comparator;
  options_.comparator = &comparator;
  Run(1500);
}

}  // namespace
}  // namespace varve::test
