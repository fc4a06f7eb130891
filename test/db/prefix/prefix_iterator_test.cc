// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: seeks of absent prefixes read no table, filters are asked only where
// their extractor is the iterator's, and each mode ends where it should.
// Method: small databases, and counts of filters asked and blocks read.

#include "test/testing/comparators.h"
#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/directory.h"
#include "test/testing/test_headers.h"
#include "test/testing/transforms.h"
#include "varve/filter_policy.h"
#include "varve/sst_file_writer.h"
#include "varve/statistics.h"

namespace varve::test {
namespace {

class PrefixIteratorTest : public DbTestBase {
 protected:
  PrefixIteratorTest() {
    options_.statistics = NewTestStatistics();
    options_.filter_policy = NewBloomFilterPolicy(20);
    options_.prefix_extractor = NewFixedPrefixTransform(2);
    options_.disable_auto_compactions = true;
  }

  // Two tables of level 0, without a key of "ab", "ba" or "cb".
  void FillTables() {
    Do("put aa1 1, put aa2 2, put ac1 3, put cc1 4, flush, "
       "put aa3 5, put bb1 6, put cc2 7, flush");
    before_checked_ = Count(Ticker::kPrefixFilterChecked);
    before_useful_ = Count(Ticker::kPrefixFilterUseful);
  }
  uint64_t Count(Ticker ticker) const {
    return options_.statistics->getTickerCount(ticker);
  }
  // Returns the filters asked since FillTables, and those that said no.
  std::string Asked() const {
    return std::to_string(Count(Ticker::kPrefixFilterChecked) -
                          before_checked_) +
           "/" +
           std::to_string(Count(Ticker::kPrefixFilterUseful) - before_useful_);
  }
  std::string WalkWith(const ReadOptions& read, const std::string& steps) {
    return Walk(db_->NewIterator(read).get(), steps);
  }
  uint64_t BlocksRead() const {
    return Count(Ticker::kBlockCacheHit) + Count(Ticker::kBlockCacheMiss);
  }

  uint64_t before_checked_ = 0;
  uint64_t before_useful_ = 0;
};

TEST_F(PrefixIteratorTest, SeekOfAnAbsentPrefixReadsNoTable) {
  Open();
  FillTables();
  const uint64_t blocks = BlocksRead();
  EXPECT_EQ(WalkWith({}, "seek:ab seek:ba for_prev:cb9"), "end end end");
  EXPECT_EQ(BlocksRead(), blocks);
  EXPECT_EQ(Asked(), "6/6");
  CompactAll();
  EXPECT_EQ(WalkWith({}, "seek:ab seek:ba for_prev:cb9"), "end end end");
  EXPECT_EQ(Asked(), "9/9");
}

TEST_F(PrefixIteratorTest, EndsWithThePrefixIfASourceIsLeftOut) {
  Open();
  FillTables();
  // "bb" is in one of the tables, "aa" in both.
  EXPECT_EQ(WalkWith({}, "seek:bb next"), "bb1=6 end");
  EXPECT_EQ(WalkWith({}, "seek:bb prev"), "bb1=6 end");
  EXPECT_EQ(WalkWith({}, "seek:aa2 next next next"), "aa2=2 aa3=5 ac1=3 bb1=6");
}

// The error must be seen, so that from then on all sources are asked.
TEST_F(PrefixIteratorTest, ARefreshMayFindADamagedTable) {
  Open();
  FillTables();
  const auto it = db_->NewIterator({});
  EXPECT_EQ(Walk(it.get(), "seek:bb"), "bb1=6");  // A table is left out.
  const std::string outside = dir_.Sub("outside.sst");
  SstFileWriter writer(options_);
  ASSERT_TRUE(Ok(writer.Open(outside)));
  ASSERT_TRUE(Ok(writer.Put("cd1", "8")));
  ASSERT_TRUE(Ok(writer.Finish()));
  const std::vector<std::string> before = FilesEndingIn(path_, ".sst");
  ASSERT_TRUE(Ok(db_->IngestExternalFile({outside}, {})));
  for (const std::string& path : FilesEndingIn(path_, ".sst")) {
    if (std::find(before.begin(), before.end(), path) != before.end()) continue;
    WriteWholeFile(path, std::string(std::filesystem::file_size(path), '\0'));
  }
  ASSERT_TRUE(Ok(it->Refresh()));
  it->Seek("cd");
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsCorruption()) << it->status().ToString();
}

TEST_F(PrefixIteratorTest, TotalOrderAsksNoFilter) {
  Open();
  FillTables();
  EXPECT_EQ(
      WalkWith({.total_order_seek = true}, "seek:ab seek:ba next for_prev:cb9"),
      "ac1=3 bb1=6 cc1=4 bb1=6");
  EXPECT_EQ(Asked(), "0/0");
}

TEST_F(PrefixIteratorTest, SameAsStartEndsWithThePrefix) {
  Open();
  FillTables();
  const ReadOptions same{.prefix_same_as_start = true};
  EXPECT_EQ(WalkWith(same,
                     "seek:aa next next next seek:ab seek:aa3 prev prev "
                     "prev"),
            "aa1=1 aa2=2 aa3=5 end end aa3=5 aa2=2 aa1=1 end");
  EXPECT_EQ(WalkWith(same, "first next next next last prev prev"),
            "aa1=1 aa2=2 aa3=5 end cc2=7 cc1=4 end");
  // A key without a prefix limits nothing.
  EXPECT_EQ(WalkWith(same, "seek:a next next next"), "aa1=1 aa2=2 aa3=5 ac1=3");
  ReadOptions total = same;
  total.total_order_seek = true;
  const std::string before = Asked();
  EXPECT_EQ(WalkWith(total, "seek:aa3 next seek:ab"), "aa3=5 end end");
  EXPECT_EQ(Asked(), before);
}

TEST_F(PrefixIteratorTest, AutoModeNeedsABoundInThePrefix) {
  Open();
  FillTables();
  Slice upper = "ac";
  ReadOptions read{.iterate_upper_bound = &upper, .auto_prefix_mode = true};
  const auto it = db_->NewIterator(read);
  EXPECT_EQ(Walk(it.get(), "seek:ab1 seek:aa3 next"), "end aa3=5 end");
  EXPECT_EQ(Asked(), "2/2");
  // "bb" is left out of one table, which has keys before it.
  upper = "bb5";
  EXPECT_EQ(Walk(it.get(), "seek:bb prev prev next next next"),
            "bb1=6 ac1=3 aa3=5 ac1=3 bb1=6 end");
  EXPECT_EQ(Asked(), "4/3");
  upper = "cc9";
  EXPECT_EQ(Walk(it.get(), "seek:ab next next"), "ac1=3 bb1=6 cc1=4");
  EXPECT_EQ(Walk(it.get(), "for_prev:cb"), "bb1=6");
  EXPECT_EQ(Asked(), "4/3");
}

TEST_F(PrefixIteratorTest, AsksNoFilterOfAnotherExtractor) {
  Open();
  FillTables();
  options_.prefix_extractor = NewFixedPrefixTransform(1);
  Reopen();
  EXPECT_EQ(WalkWith({}, "seek:ab seek:ba"), "ac1=3 bb1=6");
  EXPECT_EQ(WalkWith({.prefix_same_as_start = true}, "seek:ab seek:b"),
            "ac1=3 bb1=6");
  EXPECT_EQ(Asked(), "0/0");
  options_.prefix_extractor = nullptr;
  Reopen();
  EXPECT_EQ(WalkWith({.prefix_same_as_start = true}, "seek:ab next"),
            "ac1=3 bb1=6");
  EXPECT_EQ(Asked(), "0/0");
  // The same function, by another object.
  options_.prefix_extractor = NewFixedPrefixTransform(2);
  Reopen();
  EXPECT_EQ(WalkWith({}, "seek:ab"), "end");
  EXPECT_EQ(Asked(), "2/2");
}

TEST_F(PrefixIteratorTest, PrefixesOfUnknownLengthAreLimitedKeyByKey) {
  options_.prefix_extractor = std::make_shared<ToColonTransform>();
  Open();
  Do("put a:1 1, put a:2 2, put aa:1 3, put aaa:1 4, flush, put a:3 5, flush");
  EXPECT_EQ(WalkWith({}, "seek:a: next next next seek:aa: next"),
            "a:1=1 a:2=2 a:3=5 aa:1=3 aa:1=3 end");
  EXPECT_EQ(WalkWith({.prefix_same_as_start = true}, "seek:a:2 next next"),
            "a:2=2 a:3=5 end");
  EXPECT_EQ(WalkWith({}, "seek:ab: seek:a9"), "end a:1=1");
}

TEST_F(PrefixIteratorTest, WorksInReverseOrder) {
  static const ReverseComparator reverse;
  options_.comparator = &reverse;
  Open();
  FillTables();
  EXPECT_EQ(WalkWith({.prefix_same_as_start = true},
                     "seek:aa9 next next next seek:bz seek:ab9"),
            "aa3=5 aa2=2 aa1=1 end end end");
  EXPECT_EQ(WalkWith({}, "seek:bb9 next for_prev:bb0 prev"),
            "bb1=6 end bb1=6 end");
}

// A prefix of only 0xFF bytes has no end.
TEST_F(PrefixIteratorTest, FindsTheLastPrefix) {
  Open();
  Do("put aa1 1, flush, put \xFF\xFF\x31 2, put \xFF\xFF 3, flush");
  EXPECT_EQ(WalkWith({.prefix_same_as_start = true}, "seek:\xFF\xFF next next"),
            "\xFF\xFF=3 \xFF\xFF\x31=2 end");
  EXPECT_EQ(WalkWith({}, "seek:\xFF\xFF\x32 for_prev:\xFF\xFF\xFF prev prev"),
            "end \xFF\xFF\x31=2 \xFF\xFF=3 end");
}

TEST_F(PrefixIteratorTest, MemtablesHaveFilters) {
  options_.memtable_prefix_bloom_size_ratio = 0.1;
  Open();
  Do("put aa1 1, put cc1 2");
  // With the table only, and with both.
  EXPECT_EQ(WalkWith({}, "seek:bb seek:cc next seek:aa"),
            "end cc1=2 end aa1=1");
  Do("put ab1 3, delete aa1");
  EXPECT_EQ(WalkWith({}, "seek:ab1 seek:aa1 seek:bb"), "ab1=3 ab1=3 end");
}

TEST_F(PrefixIteratorTest, ShowsWhatAnIteratorSawBeforeLaterWrites) {
  options_.memtable_prefix_bloom_size_ratio = 0.1;
  Open();
  Do("put aa1 1");
  const auto it = db_->NewIterator({});
  Do("put bb1 2");
  EXPECT_EQ(Walk(it.get(), "seek:bb seek:aa"), "end aa1=1");
  EXPECT_EQ(WalkWith({}, "seek:bb"), "bb1=2");
}

// Filters without whole keys exclude lookups of keys whose prefix is absent.
TEST_F(PrefixIteratorTest, LookupsAskFiltersOfPrefixesOnly) {
  options_.whole_key_filtering = false;
  Open();
  FillTables();
  const uint64_t useful = Count(Ticker::kBloomFilterUseful);
  const uint64_t blocks = BlocksRead();
  EXPECT_EQ(Get("ab1"), "NotFound");
  EXPECT_EQ(Get("bc1"), "NotFound");
  std::vector<std::string> values;
  for (const Status& status : db_->MultiGet({}, {"ab2", "bz3"}, &values)) {
    EXPECT_TRUE(status.IsNotFound());
  }
  EXPECT_EQ(BlocksRead(), blocks);
  EXPECT_GE(Count(Ticker::kBloomFilterUseful) - useful, 4u);
  EXPECT_EQ(Get("aa1"), "1");
  EXPECT_EQ(Get("aa9"), "NotFound");
  // The tables say how their prefixes were made.
  options_.prefix_extractor = nullptr;
  Reopen();
  EXPECT_EQ(Get("ab1"), "NotFound");
  EXPECT_EQ(Get("cc2"), "7");
}

// Dead entries that are seen while sources are left out say nothing of keys
// beyond the prefix. Walks over so many deletions are remembered.
TEST_F(PrefixIteratorTest, WalksOverDeadEntriesStayInThePrefix) {
  constexpr int kDeletions = 300;
  const auto key = [](int i) { return "k:" + Key(i); };
  for (const bool has_length : {true, false}) {
    options_.prefix_extractor = NewFixedPrefixTransform(2);
    if (!has_length) {
      options_.prefix_extractor = std::make_shared<ToColonTransform>();
    }
    OpenAnew();
    for (int i = 0; i < kDeletions; ++i) Put(key(i), "1");
    Flush();
    for (int i = 0; i < kDeletions; ++i) Delete(key(i));
    // The last table has no key of the prefix.
    Do("flush, put j:y 5, put l:w 6, flush");
    EXPECT_EQ(WalkWith({}, "seek:k:a seek:k:key for_prev:k:z for_prev:k:key9"),
              "end end end end");
    const ReadOptions total{.total_order_seek = true};
    EXPECT_EQ(WalkWith(total, "first next next last prev prev"),
              "j:y=5 l:w=6 end l:w=6 j:y=5 end");
    EXPECT_EQ(WalkWith(total, "seek:k:key for_prev:k:key9"), "l:w=6 j:y=5");
  }
}

// As above, where keys of other prefixes begin with the prefix.
TEST_F(PrefixIteratorTest, WalksOverOtherPrefixesAreNotRemembered) {
  constexpr int kDeletions = 300;
  options_.prefix_extractor = NewNoopTransform();
  Open();
  Put("k", "1");
  for (int i = 0; i < kDeletions; ++i) Put(Key(i), "1");
  Flush();
  Delete("k");
  for (int i = 0; i < kDeletions; ++i) Delete(Key(i));
  // The last table has no key "k".
  Do("flush, put j 5, put kz 6, flush");
  EXPECT_EQ(WalkWith({}, "seek:k for_prev:k"), "end end");
  const ReadOptions total{.total_order_seek = true};
  EXPECT_EQ(WalkWith(total, "first next seek:k"), "j=5 kz=6 kz=6");
}

}  // namespace
}  // namespace varve::test
