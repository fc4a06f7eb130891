// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: SetOptions changes the prefix_extractor of an open family, and no
// reader shows a key after a gap by it. Method: each part that has an extractor
// (memtables, tables, iterators, indexed batches, OPTIONS files) is made before
// the change and asked after it; and threads seek beside one that changes it.

#include "test/testing/db/iterator_walk.h"
#include "test/testing/db_helpers.h"
#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "test/testing/transforms.h"
#include "varve/convert.h"
#include "varve/filter_policy.h"
#include "varve/statistics.h"
#include "varve/write_batch_with_index.h"

namespace varve::test {
namespace {

ReadOptions InPrefix() {
  ReadOptions read;
  read.prefix_same_as_start = true;
  return read;
}

class ExtractorChangeTest : public DbTestBase {
 protected:
  ExtractorChangeTest() {
    options_.filter_policy = NewBloomFilterPolicy(10);
    options_.prefix_extractor = NewFixedPrefixTransform(2);
    options_.memtable_prefix_bloom_size_ratio = 0.1;
    options_.statistics = NewTestStatistics();
    Open();
  }

  void Set(const std::string& extractor) {
    ASSERT_TRUE(Ok(db_->SetOptions({{"prefix_extractor", extractor}})));
  }
  std::string NameNow() {
    const auto extractor = db_->GetOptions().prefix_extractor;
    return extractor == nullptr ? "none" : extractor->Name();
  }
  std::string WalkFrom(const std::string& steps) {
    return Walk(db_->NewIterator(InPrefix()).get(), steps);
  }
  uint64_t Useful() const {
    return options_.statistics->getTickerCount(Ticker::kPrefixFilterUseful);
  }
};

TEST_F(ExtractorChangeTest, TakesAllTexts) {
  const std::pair<const char*, const char*> texts[] = {
      {"rocksdb.FixedPrefix.4", "rocksdb.FixedPrefix.4"},
      {"fixed:5", "rocksdb.FixedPrefix.5"},
      {"capped:4", "rocksdb.CappedPrefix.4"},
      {"rocksdb.CappedPrefix.3", "rocksdb.CappedPrefix.3"},
      {"rocksdb.Noop", "rocksdb.Noop"},
      {"nullptr", "none"}};
  for (const auto& [text, name] : texts) {
    Set(text);
    EXPECT_EQ(NameNow(), name);
  }
  Set("fixed:3");
  EXPECT_TRUE(
      db_->SetOptions({{"prefix_extractor", "fixed:x"}}).IsInvalidArgument());
  EXPECT_TRUE(db_->SetOptions({{"prefix_extractor", "capped:2"},
                               {"write_buffer_size", "x"}})
                  .IsInvalidArgument());
  EXPECT_EQ(NameNow(), "rocksdb.FixedPrefix.3");
}

TEST_F(ExtractorChangeTest, MemtablesFromBeforeAreNotAskedForNewPrefixes) {
  Put("aab1", "1");
  Set("fixed:3");  // The memtable's filter has "aa" and not "aab".
  EXPECT_EQ(WalkFrom("seek:aab next"), "aab1=1 end");
  Put("aac1", "2");
  EXPECT_EQ(WalkFrom("seek:aab next"), "aab1=1 end");
  EXPECT_EQ(WalkFrom("seek:aac next"), "aac1=2 end");
  Flush();
  EXPECT_EQ(WalkFrom("seek:aab next"), "aab1=1 end");
}

TEST_F(ExtractorChangeTest, TablesAreAskedForTheirOwnPrefixesOnly) {
  for (const char* extractor : {"fixed:2", "fixed:3", "nullptr"}) {
    Set(extractor);
    Put("aab1", extractor);
    Put("xyz1", extractor);
    Flush();
  }
  for (const auto& [extractor, useful] :
       {std::pair("fixed:2", 1), {"fixed:3", 1}, {"capped:3", 0}}) {
    Set(extractor);
    const uint64_t before = Useful();
    EXPECT_EQ(WalkFrom("seek:aab next"), "aab1=nullptr end");
    EXPECT_EQ(WalkFrom("seek:bbb"), "end");
    EXPECT_EQ(Useful() - before, static_cast<uint64_t>(useful)) << extractor;
  }
}

TEST_F(ExtractorChangeTest, NewTablesHaveTheNewPrefixes) {
  Put("aaa1", "1");
  Put("aac1", "1");
  Set("fixed:3");
  Flush();
  Set("capped:4");
  CompactAll();
  TablePropertiesCollection all;
  ASSERT_TRUE(Ok(db_->GetPropertiesOfAllTables(nullptr, &all)));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.begin()->second->prefix_extractor_name,
            "rocksdb.CappedPrefix.4");
  const uint64_t before = Useful();
  EXPECT_EQ(WalkFrom("seek:aab0"), "end");
  EXPECT_GT(Useful(), before);
}

TEST_F(ExtractorChangeTest, IteratorsKeepWhatTheyBeganWith) {
  for (const char* key : {"aab1", "aac1", "abd1"}) Put(key, "v");
  const auto began = db_->NewIterator(InPrefix());
  const auto tailing_options = [] {
    ReadOptions read = InPrefix();
    read.tailing = true;
    return read;
  }();
  const auto tailing = db_->NewIterator(tailing_options);
  Set("fixed:3");
  Flush();
  const auto later = db_->NewIterator(InPrefix());
  EXPECT_EQ(Walk(began.get(), "seek:aab next next"), "aab1=v aac1=v end");
  EXPECT_EQ(Walk(later.get(), "seek:aab next"), "aab1=v end");
  Set("nullptr");
  CompactAll();
  Put("aad1", "v");
  ASSERT_TRUE(Ok(began->Refresh()));
  ASSERT_TRUE(Ok(later->Refresh()));
  EXPECT_EQ(Walk(began.get(), "seek:aac next next"), "aac1=v aad1=v end");
  EXPECT_EQ(Walk(tailing.get(), "seek:aac next next"), "aac1=v aad1=v end");
  EXPECT_EQ(Walk(later.get(), "seek:aac next"), "aac1=v end");
  EXPECT_EQ(WalkFrom("seek:aad next next"), "aad1=v abd1=v end");
  Set("fixed:2");
  ASSERT_TRUE(Ok(later->Refresh()));
  EXPECT_EQ(Walk(later.get(), "seek:aac next"), "aac1=v end");
}

TEST_F(ExtractorChangeTest, IteratorsWithoutAnExtractorTakeNone) {
  Set("nullptr");
  for (const char* key : {"aab1", "abd1"}) Put(key, "v");
  const auto it = db_->NewIterator(InPrefix());
  Set("fixed:2");
  Flush();
  ASSERT_TRUE(Ok(it->Refresh()));
  EXPECT_EQ(Walk(it.get(), "seek:aab next next"), "aab1=v abd1=v end");
}

TEST_F(ExtractorChangeTest, BatchesStayInThePrefixOfTheirBase) {
  Put("aab1", "1");
  Put("aac1", "1");
  WriteBatchWithIndex batch;
  ASSERT_TRUE(Ok(batch.Put("aad1", "2")));
  ASSERT_TRUE(Ok(batch.Put("abd1", "2")));
  ReadOptions read = InPrefix();
  ColumnFamilyHandle* const family = db_->DefaultColumnFamily();
  const auto old = [&](auto base) {
    return batch.NewIteratorWithBase(family, std::move(base), &read);
  };
  auto base = db_->NewIterator(read);
  Set("fixed:3");
  EXPECT_EQ(Walk(old(std::move(base)).get(), "seek:aab next next next"),
            "aab1=1 aac1=1 aad1=2 end");
  EXPECT_EQ(Walk(old(db_->NewIterator(read)).get(), "seek:aab next"),
            "aab1=1 end");
}

TEST_F(ExtractorChangeTest, ChangesOneFamily) {
  ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(Ok(db_->CreateColumnFamily(options_, "other", &other)));
  ASSERT_TRUE(Ok(db_->SetOptions(other, {{"prefix_extractor", "capped:7"}})));
  EXPECT_EQ(NameNow(), "rocksdb.FixedPrefix.2");
  EXPECT_STREQ(db_->GetOptions(other).prefix_extractor->Name(),
               "rocksdb.CappedPrefix.7");
  ASSERT_TRUE(Ok(db_->DropColumnFamily(other)));
  EXPECT_TRUE(Ok(db_->SetOptions(other, {{"prefix_extractor", "capped:8"}})));
  ASSERT_TRUE(Ok(db_->DestroyColumnFamilyHandle(other)));
}

TEST_F(ExtractorChangeTest, WritesAnOptionsFile) {
  Set("fixed:4");
  DBOptions database;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_TRUE(Ok(LoadLatestOptions({}, path_, &database, &families)));
  ASSERT_EQ(families.size(), 1u);
  EXPECT_STREQ(families[0].options.prefix_extractor->Name(),
               "rocksdb.FixedPrefix.4");
}

// A table of a transform of the program, whose name only the DB's options know.
TEST_F(ExtractorChangeTest, OwnTransformsEndWithTheDatabase) {
  options_.prefix_extractor = std::make_shared<ToColonTransform>();
  options_.whole_key_filtering = false;
  Reopen();
  const std::weak_ptr<const SliceTransform> own = options_.prefix_extractor;
  options_.prefix_extractor = nullptr;
  Put("a:1", "1");
  Put("b", "2");
  Flush();
  const auto it = db_->NewIterator(InPrefix());
  Set("fixed:1");
  EXPECT_EQ(Get("a:1"), "1");
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("a:2"), "NotFound");
  EXPECT_EQ(WalkFrom("seek:a next"), "a:1=1 end");
  EXPECT_EQ(Walk(it.get(), "seek:a:0 next"), "a:1=1 end");
  EXPECT_FALSE(own.expired());
}

// The keys are <2 letters><2 digits>, which never change; their values do. Any
// iterator, whichever extractor it found, must show keys without a gap from its
// target on, and at least those of the longest prefix.
TEST_F(ExtractorChangeTest, SeeksBesideChangesShowNoGap) {
  constexpr int kLetters = 6;
  constexpr int kNumbers = 12;
  constexpr int kChanges = 40;
  std::vector<std::string> keys;
  for (int i = 0; i < kLetters * kNumbers; ++i) {
    const int number = i % kNumbers;
    keys.push_back({'k', static_cast<char>('a' + 2 * (i / kNumbers)),
                    static_cast<char>('0' + number / 10),
                    static_cast<char>('0' + number % 10)});
    Put(keys.back(), "0");
  }
  const uint64_t seed = TestSeed();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> seeks{0};
  std::vector<std::thread> threads;
  for (uint64_t reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&, reader] {
      Rng random(seed + reader);
      std::unique_ptr<Iterator> it;
      const std::string upper_key = "z";
      const Slice upper = upper_key;
      while (!stop.load() && !HasFailure()) {
        if (it == nullptr || random.OneIn(4)) {
          ReadOptions read;
          const uint64_t mode = random.Below(4);
          read.prefix_same_as_start = mode == 1;
          read.auto_prefix_mode = mode == 2;
          read.total_order_seek = mode == 3;
          if (random.OneIn(2)) read.iterate_upper_bound = &upper;
          it = db_->NewIterator(read);
        } else if (random.OneIn(4)) {
          EXPECT_TRUE(Ok(it->Refresh()));
        }
        // Every other letter has no keys.
        std::string target =
            keys[random.Below(keys.size())].substr(0, random.Between(1, 4));
        if (target.size() > 1 && random.OneIn(3)) ++target[1];
        auto at = std::lower_bound(keys.begin(), keys.end(), target);
        for (it->Seek(target); it->Valid(); it->Next(), ++at) {
          ASSERT_NE(at, keys.end());
          ASSERT_EQ(it->key().ToString(), *at) << "after " << target;
        }
        ASSERT_TRUE(Ok(it->status()));
        // Of the extractors, fixed:3 has the longest prefixes.
        EXPECT_FALSE(target.size() >= 3 && at != keys.end() &&
                     at->starts_with(target.substr(0, 3)))
            << *at << " is missing after " << target;
        seeks.fetch_add(1);
      }
    });
  }
  Rng random(seed + 3);
  for (int i = 0; i < kChanges && !HasFailure(); ++i) {
    Set(random.Pick(
        {"nullptr", "fixed:1", "fixed:2", "fixed:3", "capped:2", "capped:3"}));
    for (int j = 0; j < 20; ++j)
      Put(keys[random.Below(keys.size())], std::to_string(i));
    if (random.OneIn(3)) Flush();
    // Each change meets some seeks.
    for (const uint64_t before = seeks.load();
         seeks.load() < before + 3 && !HasFailure();) {
      std::this_thread::yield();
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace varve::test
