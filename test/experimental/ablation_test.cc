// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: every switch can be set by its name and read back, and what is unknown
// is refused by name and changes nothing. Method: each name and value, all
// combinations there and back, and texts that are wrong in one place.
#include "experimental/ablation.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

using ::testing::HasSubstr;

auto Fields(const AblationOptions& options) {
  return std::tuple(options.superversion, options.block_index,
                    options.block_cache, options.memtable, options.statistics,
                    options.snapshots, options.key_case, options.catalog,
                    options.waste);
}

AblationOptions Parsed(const Slice& text) {
  AblationOptions options;
  EXPECT_TRUE(Ok(options.Parse(text)));
  return options;
}

TEST(AblationTest, IsAllProductionByDefault) {
  const AblationOptions options;
  EXPECT_EQ(options.superversion, SuperVersionMode::kThreadLocal);
  EXPECT_EQ(options.block_index, BlockIndexMode::kPrefixes);
  EXPECT_EQ(options.block_cache, BlockCacheMode::kSwizzled);
  EXPECT_EQ(options.memtable, MemTableMode::kBlinkTree);
  EXPECT_EQ(options.statistics, StatisticsMode::kPerCpu);
  EXPECT_EQ(options.snapshots, SnapshotMode::kPerThread);
  EXPECT_EQ(options.arena, ArenaMode::kKept);
  EXPECT_EQ(options.key_case, KeyCaseMode::kAsciiFirst);
  EXPECT_EQ(options.ToString(), "");
  EXPECT_EQ(Fields(Parsed("")), Fields(options));
}

TEST(AblationTest, SetsEachSwitchByName) {
  EXPECT_EQ(Parsed("superversion=mutex").superversion,
            SuperVersionMode::kMutex);
  EXPECT_EQ(Parsed("block_index=binary_search").block_index,
            BlockIndexMode::kBinarySearch);
  EXPECT_EQ(Parsed("block_cache=hash").block_cache, BlockCacheMode::kHash);
  EXPECT_EQ(Parsed("memtable=skiplist").memtable, MemTableMode::kSkipList);
  EXPECT_EQ(Parsed("statistics=global").statistics, StatisticsMode::kGlobal);
  EXPECT_EQ(Parsed("statistics=thread").statistics, StatisticsMode::kThread);
  EXPECT_EQ(Parsed("snapshots=mutex").snapshots, SnapshotMode::kMutex);
  EXPECT_EQ(Parsed("arena=fresh").arena, ArenaMode::kFresh);
  EXPECT_EQ(Parsed("context=fresh").arena, ArenaMode::kFresh);
  EXPECT_EQ(Parsed("memory_accounting=atomic").memory_accounting,
            MemoryAccountingMode::kAtomic);
  EXPECT_EQ(Parsed("key_case=unicode").key_case, KeyCaseMode::kUnicode);
  EXPECT_EQ(Parsed("catalog=folding").catalog, CatalogMode::kFolding);
  EXPECT_EQ(Parsed("waste=ignored").waste, WasteMode::kIgnored);
}

TEST(AblationTest, TakesTheNamesOfProduction) {
  AblationOptions options = Parsed(
      "superversion=mutex,block_index=binary_search,block_cache=hash,"
      "memtable=skiplist,statistics=thread,"
      "snapshots=mutex,key_case=unicode,waste=ignored");
  ASSERT_TRUE(Ok(options.Parse(
      "superversion=thread_local,block_index=prefixes,block_cache=swizzled,"
      "memtable=blink_tree,statistics=per_cpu,"
      "snapshots=per_thread,key_case=ascii_first,waste=mended")));
  EXPECT_EQ(Fields(options), Fields(AblationOptions()));
}

TEST(AblationTest, ParsesItsOwnOutput) {
  for (int bits = 0; bits < 96; ++bits) {
    AblationOptions options;
    options.superversion = static_cast<SuperVersionMode>(bits & 1);
    options.block_index = static_cast<BlockIndexMode>(bits >> 1 & 1);
    options.block_cache = static_cast<BlockCacheMode>(bits >> 2 & 1);
    options.memtable = static_cast<MemTableMode>(bits >> 3 & 1);
    options.snapshots = static_cast<SnapshotMode>(bits >> 4 & 1);
    options.statistics = static_cast<StatisticsMode>(bits >> 5);
    EXPECT_EQ(Fields(Parsed(options.ToString())), Fields(options))
        << options.ToString();
  }
  EXPECT_EQ(Parsed("block_cache=hash,superversion=mutex").ToString(),
            "superversion=mutex,block_cache=hash");
}

TEST(AblationTest, NamesTheValueOfEachField) {
  const AblationOptions options = Parsed("superversion=mutex");
  EXPECT_STREQ(options.ValueName("superversion"), "mutex");
  EXPECT_STREQ(options.ValueName("block_cache"), "swizzled");
  EXPECT_EQ(options.ValueName("superversio"), nullptr);
}

TEST(AblationTest, KeepsOptionsThatTheTextDoesNotName) {
  AblationOptions options = Parsed("superversion=mutex");
  ASSERT_TRUE(options.Parse("block_cache=hash").ok());
  EXPECT_EQ(options.ToString(), "superversion=mutex,block_cache=hash");
}

TEST(AblationTest, TheLastOneCounts) {
  EXPECT_EQ(Fields(Parsed("block_cache=hash,block_cache=swizzled")),
            Fields(AblationOptions()));
}

TEST(AblationTest, RefusesUnknownOptionsAndChangesNothing) {
  const auto refusal = [](const std::string& text) {
    AblationOptions options = Parsed("memtable=skiplist");
    const Status s = options.Parse("superversion=mutex," + text);
    EXPECT_TRUE(IsInvalidArgument(s));
    EXPECT_EQ(options.ToString(), "memtable=skiplist");
    return s.ToString();
  };
  EXPECT_THAT(refusal("warp=on"), HasSubstr("no ablation named: warp"));
  EXPECT_THAT(refusal("=hash"), HasSubstr("no ablation named"));
  EXPECT_THAT(refusal("Block_cache=hash"), HasSubstr("Block_cache"));
  EXPECT_THAT(refusal(",block_cache=hash"), HasSubstr("no ablation named"));
  EXPECT_THAT(refusal(" block_cache=hash"), HasSubstr("no ablation named"));
  for (const char* text : {"block_cache=lru", "block_cache=", "block_cache",
                           "block_cache=hash ", "block_cache==hash"}) {
    EXPECT_THAT(refusal(text),
                HasSubstr("ablation block_cache must be swizzled or hash"))
        << text;
  }
  for (const char* text : {"statistics=", "statistics=per_thread"}) {
    EXPECT_THAT(refusal(text),
                HasSubstr("statistics must be per_cpu or global or thread"));
  }
}

}  // namespace
}  // namespace varve
