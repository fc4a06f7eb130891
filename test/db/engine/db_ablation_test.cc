// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: a measurement can tell from the property ablation-path-counts which
// variants have run, and the production ones count nothing where they are
// fast. Method: the counts before and after a read that touches all of them,
// for each variant.

#include <map>
#include <string>

#include "experimental/ablation_experiment.h"
#include "test/testing/db_helpers.h"
#include "util/threads/epoch.h"
#include "util/threads/memory_account.h"

namespace varve::test {
namespace {

class DbAblationTest : public DbTestBase {
 protected:
  // Opens a new database, and reads an entry from a table until nothing that
  // can be kept in memory is missing.
  void OpenAblated(const std::string& text) {
    AblationOptions ablation;
    ASSERT_TRUE(Ok(ablation.Parse(text)));
    options_.experiment = NewExperiment(ablation);
    options_.block_cache = nullptr;
    // Else nothing is folded.
    options_.key_case = text.starts_with("key_case") ? KeyCase::kInsensitive
                                                     : KeyCase::kSensitive;
    db_.reset();
    ASSERT_TRUE(Ok(DestroyDB(path_, options_)));
    Open();
    Put(Key(1), "1");
    Flush();
    ASSERT_TRUE(Ok(db_->WaitForCompact()));
    for (int i = 0; i < 3; i++) EXPECT_EQ(Get(Key(1)), "1");
  }

  // "field=value" and how often.
  std::map<std::string, uint64_t> PathCounts() {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("varve.ablation-path-counts", &text));
    std::map<std::string, uint64_t> counts;
    while (!text.empty()) {
      const size_t space = text.find(' ');
      const size_t end = text.find('\n');
      counts[text.substr(0, space)] = std::stoull(text.substr(space));
      text.erase(0, end + 1);
    }
    return counts;
  }
};

TEST_F(DbAblationTest, ProductionHasAllRunAndCountsNoCachedRead) {
  OpenAblated("");
  const auto before = PathCounts();
  for (const char* variant :
       {"superversion=thread_local", "block_index=prefixes",
        "block_cache=swizzled", "memtable=blink_tree", "statistics=per_cpu"}) {
    ASSERT_TRUE(before.contains(variant)) << variant;
    EXPECT_GT(before.at(variant), 0u) << variant;
  }
  for (int i = 0; i < 100; i++) EXPECT_EQ(Get(Key(1)), "1");
  const auto after = PathCounts();
  EXPECT_EQ(before, after);
}

TEST_F(DbAblationTest, EachReadIsSeenByTheVariantThatServedIt) {
  for (const std::string variant :
       {"superversion=mutex", "block_index=binary_search", "block_cache=hash",
        "statistics=global", "statistics=thread", "key_case=unicode"}) {
    OpenAblated(variant);
    const auto before = PathCounts();
    for (int i = 0; i < 100; i++) EXPECT_EQ(Get(Key(1)), "1");
    const auto after = PathCounts();
    ASSERT_TRUE(before.contains(variant)) << variant;
    EXPECT_GE(after.at(variant), before.at(variant) + 100) << variant;
    for (const auto& [other, count] : before) {
      if (other == variant) continue;
      EXPECT_EQ(after.at(other), count) << other << " beside " << variant;
    }
  }
}

TEST_F(DbAblationTest, EachIteratorAndMultiGetIsSeenByItsContext) {
  for (const std::string variant : {"arena=kept", "arena=fresh"}) {
    OpenAblated(variant);
    // The first one may need more than one piece of memory.
    for (int i = 0; i < 2; i++) db_->NewIterator({})->SeekToFirst();
    const uint64_t before = PathCounts().at(variant);
    EXPECT_GT(before, 0u);
    for (int i = 0; i < 10; i++) {
      db_->NewIterator({})->SeekToFirst();
      std::vector<std::string> values;
      const std::string key = Key(1);
      EXPECT_TRUE(Ok(db_->MultiGet({}, {Slice(key)}, &values)[0]));
    }
    const uint64_t after = PathCounts().at(variant);
    EXPECT_EQ(after, before + (variant == "arena=fresh" ? 20 : 0));
  }
}

TEST_F(DbAblationTest, MemoryIsSeenByItsAccounting) {
  for (const std::string variant :
       {"memory_accounting=atomic", "memory_accounting=owner"}) {
    SetMemoryAccountingAtomic(false);
    OpenAblated(variant);
    const uint64_t before = PathCounts().at(variant);
    WriteBatch batch;
    batch.Put(Key(1), std::string(1000, 'v'));
    EXPECT_GT(PathCounts().at(variant), before + 1000) << variant;
  }
  SetMemoryAccountingAtomic(!IsProduction(TestAblation().memory_accounting));
}

TEST_F(DbAblationTest, ADatabaseThatFoldsIsSeen) {
  OpenAblated("key_case=ascii_first");
  const uint64_t before = PathCounts().at("key_case=ascii_first");
  OpenAblated("key_case=ascii_first");
  EXPECT_EQ(PathCounts().at("key_case=ascii_first"), before + 1);
}

TEST_F(DbAblationTest, EachScanOfAMemtableIsSeenByItsSkipList) {
  for (const std::string variant :
       {"memtable=blink_tree", "memtable=skiplist"}) {
    OpenAblated(variant);
    Put(Key(1), "2");
    const uint64_t before = PathCounts().at(variant);
    EXPECT_GT(before, 0u);
    for (int i = 0; i < 10; i++) {
      std::unique_ptr<Iterator> iterator(db_->NewIterator({}));
      iterator->SeekToFirst();
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->value(), Slice("2"));
    }
    const uint64_t after = PathCounts().at(variant);
    EXPECT_EQ(after, before + (variant == "memtable=skiplist" ? 10 : 0));
  }
}

}  // namespace
}  // namespace varve::test
