// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: both block caches count bytes exactly, evict blocks that were not used
// recently, never free a block in use, and give every thread the same block.
// Method: blocks of one size in caches of known capacity; the labelled
// interleavings of clock_block_cache.h step by step with controlled threads;
// threads that race on few blocks, each of which contains its own identity.
#include "table/cache/block_cache.h"
#include "table/cache/baseline/hash_block_cache.h"
#include "table/cache/clock_block_cache.h"

#include "experimental/ablation.h"
#include "table/block/block_builder.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/actor.h"
#include "util/threads/epoch.h"

namespace varve {
namespace {

using test::Actor;

BlockRef MakeBlock(const std::string& value) {
  BlockBuilder builder(16);
  builder.Add(MakeInternalKey("key", PackTrailer(1, ValueType::kValue)), value);
  Block* block = nullptr;
  EXPECT_TRUE(Ok(Block::Create(*builder.Finish(), {}, &block)));
  return BlockRef(block);
}
BlockRef Block100() { return MakeBlock(std::string(100, 'v')); }

std::string ValueOf(const Block& block) {
  return block.EntryAt(0).value.ToString();
}
std::string ValueOf(const BlockRef& ref) { return ValueOf(*ref.get()); }

// The parts of a table that a cache needs: slots, a number, and an end.
class TestTable {
 public:
  TestTable(BlockCache* cache, size_t blocks)
      : cache_(cache), id_(cache->NewTableId()) {
    BlockBuilder builder(1, BlockBuilder::ValueLength::kLeftOut);
    for (size_t i = 0; i < blocks; ++i) {
      std::string key;
      for (int shift = 24; shift >= 0; shift -= 8) {
        key.push_back(static_cast<char>(i >> shift));
      }
      std::string value;
      BlockHandle{4096 * i, Block100()->ApproximateMemoryUsage()}.EncodeTo(
          &value);
      builder.Add(key, value);
    }
    const Slice body = *builder.Finish();
    BlockContents contents;
    memcpy(contents.buffer.Reserve(body.size()), body.data(), body.size());
    contents.size = body.size();
    PropertiesBlock properties;
    properties.index_key_is_user_key = true;
    properties.index_value_is_delta_encoded = true;
    static const InternalKeyComparator comparator(BytewiseComparator());
    EXPECT_TRUE(index_
                    .Decode(std::move(contents), properties, uint64_t{1} << 40,
                            &comparator, false)
                    .ok());
  }
  ~TestTable() { Erase(); }

  BlockSlot& SlotOf(size_t i) { return index_.slot(i); }
  BlockRef Lookup(size_t i) { return cache_->Lookup(PlaceOf(i)); }
  BlockRef Insert(size_t i, BlockRef block) {
    return cache_->Insert(PlaceOf(i), std::move(block));
  }
  bool Admit(size_t i) { return cache_->Admit(PlaceOf(i)); }
  void Erase() { cache_->EraseTable(id_, index_.nodes()); }

 private:
  BlockPlace PlaceOf(size_t i) {
    return {&SlotOf(i), id_, &index_, i, index_.last_miss(i)};
  }

  BlockCache* const cache_;
  const uint64_t id_;
  TableIndex index_;
};

// The parameter: which of the caches.
class BlockCacheTest : public testing::TestWithParam<BlockCacheMode> {
 protected:
  void TearDown() override { TEST_DrainRetired(); }

  std::shared_ptr<Cache> NewCache(size_t capacity_bytes, bool strict = false) {
    CacheOptions options;
    options.capacity_bytes = capacity_bytes;
    options.strict_capacity_limit = strict;
    if (!swizzled()) return std::make_shared<HashBlockCache>(options);
    return NewBlockCache(options);
  }
  static BlockCache* Blocks(const std::shared_ptr<Cache>& cache) {
    return static_cast<BlockCache*>(cache.get());
  }
  // Returns the charge of one block with a value of 100 bytes.
  size_t Charge() {
    if (charge_ == 0) {
      const auto cache = NewCache(1 << 20);
      TestTable table(Blocks(cache), 1);
      table.Insert(0, Block100());
      charge_ = cache->GetUsage();
    }
    return charge_;
  }
  bool swizzled() const { return GetParam() == BlockCacheMode::kSwizzled; }

 private:
  size_t charge_ = 0;
};

std::string ModeName(const testing::TestParamInfo<BlockCacheMode>& mode) {
  return mode.param == BlockCacheMode::kSwizzled ? "Swizzled" : "Hash";
}

INSTANTIATE_TEST_SUITE_P(Modes, BlockCacheTest,
                         testing::Values(BlockCacheMode::kSwizzled,
                                         BlockCacheMode::kHash),
                         ModeName);

// Blocks that are read only once make space for later ones.
TEST_P(BlockCacheTest, ForgetsBlocksReadLongAgo) {
  constexpr size_t kOld = 200;
  constexpr size_t kNew = 2000;
  const auto cache = NewCache(kOld * Charge());
  TestTable table(Blocks(cache), kOld + kNew);
  for (size_t i = 0; i < kOld + kNew; ++i) table.Insert(i, Block100());
  size_t old_blocks = 0;
  for (size_t i = 0; i < kOld; ++i) old_blocks += table.Lookup(i) ? 1 : 0;
  EXPECT_EQ(old_blocks, 0u);
}

TEST_P(BlockCacheTest, AdmitsBlocksMissedTwiceInATurn) {
  constexpr size_t kFits = 100;
  const auto cache = NewCache(kFits * Charge());
  TestTable table(Blocks(cache), 20 * kFits);
  // While there is space, everything.
  for (size_t i = 0; i < kFits; ++i) {
    EXPECT_TRUE(table.Admit(i));
    table.Insert(i, Block100());
  }
  // Then not what is read once, however much that is.
  size_t admitted = 0;
  for (size_t i = kFits; i < 20 * kFits; ++i) admitted += table.Admit(i);
  EXPECT_EQ(admitted, 0u);
  // Not what is read again after a long time.
  for (size_t i = kFits; i < 10 * kFits; ++i) admitted += table.Admit(i);
  EXPECT_EQ(admitted, 0u);
  // But what is read again soon.
  EXPECT_FALSE(table.Admit(15 * kFits));
  EXPECT_TRUE(table.Admit(15 * kFits));
  for (size_t i = 0; i < kFits / 2; ++i) table.Admit(17 * kFits + i);
  EXPECT_TRUE(table.Admit(15 * kFits));
}

TEST_P(BlockCacheTest, AdmitsNothingThatNeverFits) {
  const auto cache = NewCache(size_t{0});
  TestTable table(Blocks(cache), 1);
  EXPECT_FALSE(table.Admit(0));
  EXPECT_FALSE(table.Admit(0));
}

TEST_P(BlockCacheTest, FindsInsertedBlocks) {
  const auto cache = NewCache(1 << 20);
  TestTable one(Blocks(cache), 20);
  TestTable two(Blocks(cache), 20);
  EXPECT_FALSE(one.Lookup(0));
  EXPECT_EQ(ValueOf(one.Insert(0, MakeBlock("one"))), "one");
  EXPECT_EQ(ValueOf(one.Insert(17, MakeBlock("two"))), "two");
  EXPECT_EQ(ValueOf(two.Insert(0, MakeBlock("three"))), "three");
  EXPECT_EQ(ValueOf(one.Lookup(0)), "one");
  EXPECT_EQ(ValueOf(one.Lookup(17)), "two");
  EXPECT_EQ(ValueOf(two.Lookup(0)), "three");
  EXPECT_FALSE(two.Lookup(17));
  EXPECT_NE(Blocks(cache)->NewTableId(), Blocks(cache)->NewTableId());
}

TEST_P(BlockCacheTest, ChargesTheMemoryOfTheBlocks) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 2);
  const BlockRef large = table.Insert(0, MakeBlock(std::string(5000, 'v')));
  const size_t overhead = cache->GetUsage() - large->ApproximateMemoryUsage();
  EXPECT_LE(overhead, swizzled() ? 0u : 200u);
  const BlockRef small = table.Insert(1, MakeBlock("v"));
  EXPECT_EQ(cache->GetUsage(), large->ApproximateMemoryUsage() +
                                   small->ApproximateMemoryUsage() +
                                   2 * overhead);
}

TEST_P(BlockCacheTest, FillsItsCapacityToTheByte) {
  for (const size_t missing : {size_t{0}, size_t{1}}) {
    const auto cache = NewCache(3 * Charge() - missing);
    TestTable table(Blocks(cache), 10);
    for (size_t i = 0; i < 10; ++i) table.Insert(i, Block100());
    EXPECT_EQ(cache->GetUsage(), (3 - missing) * Charge());
  }
}

TEST_P(BlockCacheTest, EvictsBlocksNotUsedRecently) {
  const auto cache = NewCache(3 * Charge());
  TestTable table(Blocks(cache), 4);
  for (size_t i = 0; i < 3; ++i) table.Insert(i, Block100());
  EXPECT_EQ(cache->GetUsage(), 3 * Charge());
  EXPECT_TRUE(table.Lookup(0));
  table.Insert(3, Block100());
  EXPECT_EQ(cache->GetUsage(), 3 * Charge());
  EXPECT_TRUE(table.Lookup(0));
  EXPECT_FALSE(table.Lookup(1));
  EXPECT_TRUE(table.Lookup(2));
  EXPECT_TRUE(table.Lookup(3));
}

TEST_P(BlockCacheTest, MakesSpaceAlsoWhenAllWereUsed) {
  const auto cache = NewCache(3 * Charge());
  TestTable table(Blocks(cache), 4);
  for (size_t i = 0; i < 3; ++i) table.Insert(i, Block100());
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(table.Lookup(i));
  table.Insert(3, Block100());
  EXPECT_EQ(cache->GetUsage(), 3 * Charge());
  EXPECT_TRUE(table.Lookup(3));
}

TEST_P(BlockCacheTest, KeepsPinnedBlocks) {
  const auto cache = NewCache(2 * Charge());
  TestTable table(Blocks(cache), 5);
  BlockRef first = table.Insert(0, Block100());
  BlockRef again = table.Lookup(0);
  EXPECT_EQ(first.get(), again.get());
  EXPECT_EQ(cache->GetPinnedUsage(), Charge());
  for (size_t i = 1; i < 5; ++i) table.Insert(i, Block100());
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
  EXPECT_TRUE(table.Lookup(0));
  first.Reset();
  EXPECT_EQ(cache->GetPinnedUsage(), Charge());
  again.Reset();
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
}

TEST_P(BlockCacheTest, ExceedsCapacityOnlyWhilePinned) {
  const auto cache = NewCache(2 * Charge());
  TestTable table(Blocks(cache), 5);
  std::vector<BlockRef> refs;
  for (size_t i = 0; i < 4; ++i) refs.push_back(table.Insert(i, Block100()));
  EXPECT_EQ(cache->GetUsage(), 4 * Charge());
  EXPECT_EQ(cache->GetPinnedUsage(), 4 * Charge());
  refs.clear();
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
  // Unpinning is silent where hits are: the next block makes up for it.
  if (swizzled()) table.Insert(4, Block100());
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
}

TEST_P(BlockCacheTest, StrictLimitIsNotExceeded) {
  const auto cache = NewCache(2 * Charge(), true);
  TestTable table(Blocks(cache), 5);
  std::vector<BlockRef> refs;
  for (size_t i = 0; i < 4; ++i) refs.push_back(table.Insert(i, Block100()));
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
  EXPECT_TRUE(table.Lookup(1));
  EXPECT_FALSE(table.Lookup(2));
  // It is the caller's own, and of use.
  EXPECT_EQ(ValueOf(refs[3]), std::string(100, 'v'));
  refs.clear();
  table.Insert(4, Block100());
  EXPECT_TRUE(table.Lookup(4));
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
}

TEST_P(BlockCacheTest, CachesNothingWithoutCapacity) {
  for (const bool strict : {false, true}) {
    const auto cache = NewCache(0, strict);
    TestTable table(Blocks(cache), 1);
    const BlockRef ref = table.Insert(0, MakeBlock("value"));
    EXPECT_EQ(ValueOf(ref), "value");
    EXPECT_FALSE(table.Lookup(0));
    EXPECT_EQ(cache->GetUsage(), 0u);
  }
}

TEST_P(BlockCacheTest, BlockLargerThanCapacityEvictsNothing) {
  const auto cache = NewCache(2 * Charge());
  TestTable table(Blocks(cache), 2);
  table.Insert(0, Block100());
  EXPECT_TRUE(table.Insert(1, MakeBlock(std::string(10000, 'v'))));
  EXPECT_TRUE(table.Lookup(0));
  EXPECT_FALSE(table.Lookup(1));
}

TEST_P(BlockCacheTest, ChangesCapacity) {
  const auto cache = NewCache(4 * Charge());
  TestTable table(Blocks(cache), 5);
  for (size_t i = 0; i < 4; ++i) table.Insert(i, Block100());
  cache->SetCapacity(Charge());
  EXPECT_EQ(cache->GetCapacity(), Charge());
  EXPECT_EQ(cache->GetUsage(), Charge());
  cache->SetCapacity(0);
  EXPECT_EQ(cache->GetUsage(), 0u);
  cache->SetCapacity(2 * Charge());
  for (size_t i = 0; i < 4; ++i) table.Insert(i, Block100());
  EXPECT_EQ(cache->GetUsage(), 2 * Charge());
}

TEST_P(BlockCacheTest, SmallerCapacitySparesPinnedBlocks) {
  const auto cache = NewCache(4 * Charge());
  TestTable table(Blocks(cache), 5);
  const BlockRef pinned = table.Insert(2, Block100());
  for (size_t i = 0; i < 4; ++i) table.Insert(i, Block100());
  cache->SetCapacity(0);
  EXPECT_EQ(cache->GetUsage(), Charge());
  EXPECT_EQ(table.Lookup(2).get(), pinned.get());
}

TEST_P(BlockCacheTest, SmallerCapacityLeavesNothingButPinnedBlocks) {
  const size_t charge = Block100()->ApproximateMemoryUsage();
  constexpr size_t kBlocks = 200;
  const auto cache = NewCache(kBlocks * charge);
  auto* const blocks = static_cast<BlockCache*>(cache.get());
  TestTable table(blocks, kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) table.Insert(i, Block100());
  // All are marked as used, and a third is in use.
  std::vector<BlockRef> pinned;
  for (size_t i = 0; i < kBlocks; ++i) {
    BlockRef ref = table.Lookup(i);
    if (i % 3 == 0) pinned.push_back(std::move(ref));
  }
  cache->SetCapacity(0);
  EXPECT_GT(cache->GetUsage(), 0u);
  EXPECT_EQ(cache->GetUsage(), cache->GetPinnedUsage());
  // Each call makes up for a part.
  pinned.clear();
  for (size_t i = 0; i < kBlocks; ++i) EXPECT_FALSE(table.Admit(i));
  EXPECT_EQ(cache->GetUsage(), 0u);
}

TEST_P(BlockCacheTest, ErasesUnreferenced) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 20);
  const BlockRef pinned = table.Insert(0, Block100());
  for (size_t i = 1; i < 20; ++i) table.Insert(i, Block100());
  cache->EraseUnreferenced();
  EXPECT_EQ(cache->GetUsage(), Charge());
  EXPECT_TRUE(table.Lookup(0));
  for (size_t i = 1; i < 20; ++i) EXPECT_FALSE(table.Lookup(i));
}

TEST_P(BlockCacheTest, ErasesTables) {
  const auto cache = NewCache(32 << 20);
  TestTable one(Blocks(cache), 101);
  TestTable two(Blocks(cache), 100);
  TestTable empty(Blocks(cache), 100);
  BlockRef pinned = one.Insert(100, Block100());
  for (size_t i = 0; i < 100; ++i) {
    one.Insert(i, Block100());
    two.Insert(i, Block100());
  }
  one.Erase();
  empty.Erase();
  EXPECT_FALSE(one.Lookup(100));
  EXPECT_EQ(ValueOf(pinned), std::string(100, 'v'));
  EXPECT_EQ(cache->GetUsage(), (swizzled() ? 100 : 101) * Charge());
  pinned.Reset();
  EXPECT_EQ(cache->GetUsage(), 100 * Charge());
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(one.Lookup(i));
    EXPECT_TRUE(two.Lookup(i));
  }
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
}

TEST_P(BlockCacheTest, DetachedRefsStayPinned) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 1);
  BlockRef ref = table.Insert(0, Block100());
  const auto [release, argument] = ref.Detach();
  EXPECT_FALSE(ref);
  EXPECT_EQ(cache->GetPinnedUsage(), Charge());
  release(argument);
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
  EXPECT_TRUE(table.Lookup(0));
}

TEST_P(BlockCacheTest, ManyShardsAddUpToTheCapacity) {
  const size_t capacity = (size_t{64} << 20) + 13;
  const auto cache = NewCache(capacity);
  EXPECT_EQ(cache->GetCapacity(), capacity);
  TestTable table(Blocks(cache), 500);
  for (size_t i = 0; i < 500; ++i) {
    table.Insert(i, MakeBlock(std::string(256 << 10, 'v')));
    ASSERT_LE(cache->GetUsage(), capacity);
  }
  EXPECT_GT(cache->GetUsage(), capacity * 3 / 4);
  cache->SetCapacity(capacity / 2);
  EXPECT_LE(cache->GetUsage(), capacity / 2);
  EXPECT_GT(cache->GetUsage(), capacity / 3);
}

// ---- The labels of clock_block_cache.h ----

TEST_P(BlockCacheTest, SecondLoaderGetsTheFirstOnesBlockB1) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 1);
  Actor first;
  Actor second;
  BlockRef winner;
  BlockRef loser;
  first.Do([&] { EXPECT_FALSE(table.Lookup(0)); });
  second.Do([&] { EXPECT_FALSE(table.Lookup(0)); });
  first.Do([&] { winner = table.Insert(0, MakeBlock("winner")); });
  const size_t usage = cache->GetUsage();
  second.Do([&] { loser = table.Insert(0, MakeBlock("loser")); });
  EXPECT_EQ(winner.get(), loser.get());
  EXPECT_EQ(cache->GetUsage(), usage);
  EXPECT_EQ(cache->GetPinnedUsage(), usage);
  loser.Reset();
  EXPECT_EQ(cache->GetPinnedUsage(), usage);
  winner.Reset();
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
}

// The block that a reader found in a slot, inside its section.
Block* LoadSlot(TestTable* table, size_t i) {
  // acquire pairs with the release in Insert.
  return table->SlotOf(i).load(std::memory_order_acquire);
}

class ClockBlockCacheTest : public BlockCacheTest {};

INSTANTIATE_TEST_SUITE_P(Clock, ClockBlockCacheTest,
                         testing::Values(BlockCacheMode::kSwizzled), ModeName);

TEST_P(ClockBlockCacheTest, SlotHoldsTheBlock) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 2);
  EXPECT_EQ(LoadSlot(&table, 1), nullptr);
  const BlockRef ref = table.Insert(1, Block100());
  EXPECT_EQ(LoadSlot(&table, 1), ref.get());
  table.Erase();
  EXPECT_EQ(LoadSlot(&table, 1), nullptr);
}

TEST_P(ClockBlockCacheTest, EvictedBlockStaysForReadersInside) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 2);
  table.Insert(0, MakeBlock("value"));
  Actor reader;
  const Block* found = nullptr;
  reader.Do([&] {
    EpochGuard::Enter(CurrentThreadRecord());
    found = LoadSlot(&table, 0);
  });
  cache->EraseUnreferenced();
  EXPECT_EQ(LoadSlot(&table, 0), nullptr);
  EXPECT_EQ(cache->GetUsage(), 0u);
  // More than a batch of others is retired after it.
  const size_t retired = TEST_RetiredCount();
  for (int i = 0; i < 200; ++i) {
    table.Insert(1, Block100());
    cache->EraseUnreferenced();
  }
  EXPECT_GE(TEST_RetiredCount(), retired);
  reader.Do([&] {
    EXPECT_EQ(ValueOf(*found), "value");
    EpochGuard::Exit(CurrentThreadRecord());
  });
  TEST_DrainRetired();
  EXPECT_EQ(TEST_RetiredCount(), 0u);
}

// One that hangs, in whatever it reads, does not make others take all memory.
TEST_P(ClockBlockCacheTest, TakesInLittleWhileAReaderStaysInside) {
  constexpr size_t kBlockBytes = 10000;
  constexpr size_t kMostBytes = 4 << 20;
  const auto cache = NewCache(10 * kBlockBytes);
  TestTable table(Blocks(cache), 100);
  const auto miss = [&](size_t i) {
    if (LoadSlot(&table, i) != nullptr || !table.Admit(i)) return false;
    table.Insert(i, MakeBlock(std::string(kBlockBytes, 'v')));
    return true;
  };
  Actor reader;
  reader.Do([] { EpochGuard::Enter(CurrentThreadRecord()); });
  size_t taken = 0;
  for (size_t i = 0; i < 20000; ++i) taken += miss(i / 2 % 100);
  EXPECT_GE(taken, kMostBytes / kBlockBytes);
  EXPECT_LE(taken, kMostBytes / kBlockBytes + 20);
  EXPECT_LE(TEST_RetiredCount(), taken);
  // Another cache's blocks would be kept as well.
  const auto other = NewCache(10 * kBlockBytes);
  TestTable other_table(Blocks(other), 1);
  EXPECT_FALSE(other_table.Admit(0));
  // Once it has left, all is as before.
  reader.Do([] { EpochGuard::Exit(CurrentThreadRecord()); });
  EXPECT_TRUE(other_table.Admit(0));
  for (size_t i = 0; i < 2000; ++i) miss(i / 2 % 100);
  EXPECT_LT(TEST_RetiredCount(), 64u);
  EXPECT_TRUE(table.Admit(1) || table.Admit(1));
}

// Counts the blocks that the hand visits in a full cache whose blocks were all
// used, as they are if reads are many and misses few.
class ClockBlockCacheLooksTest : public BlockCacheTest {
 protected:
  static constexpr size_t kBlocks = 3000;
  static constexpr size_t kNew = 100;

  void SetUp() override {
    cache_ = NewCache(kBlocks * Charge());
    table_ = std::make_unique<TestTable>(Blocks(cache_), kBlocks + kNew);
    for (size_t i = 0; i < kBlocks; ++i) table_->Insert(i, Block100());
  }
  // Returns the visits of a call.
  template <typename Call>
  uint64_t LooksOf(Call call) {
    const auto* const clock = static_cast<ClockBlockCache*>(cache_.get());
    const uint64_t before = clock->TEST_Looks();
    call();
    return clock->TEST_Looks() - before;
  }

  std::shared_ptr<Cache> cache_;
  std::unique_ptr<TestTable> table_;
};

INSTANTIATE_TEST_SUITE_P(Clock, ClockBlockCacheLooksTest,
                         testing::Values(BlockCacheMode::kSwizzled), ModeName);

TEST_P(ClockBlockCacheLooksTest, InsertionSparesFewMarkedBlocks) {
  const size_t usage = cache_->GetUsage();
  for (size_t i = 0; i < kNew; ++i) {
    for (size_t j = 0; j < kBlocks; ++j) table_->Lookup(j);
    const uint64_t looks =
        LooksOf([&] { table_->Insert(kBlocks + i, Block100()); });
    ASSERT_LE(looks, ClockBlockCache::kMaxSpared + 1);
    ASSERT_TRUE(table_->Lookup(kBlocks + i));
    ASSERT_EQ(cache_->GetUsage(), usage);
  }
}

TEST_P(ClockBlockCacheLooksTest, LargeBlockEvictsItsBytes) {
  for (size_t j = 0; j < kBlocks; ++j) table_->Lookup(j);
  BlockRef large = MakeBlock(std::string(200 * Charge(), 'v'));
  const size_t bytes = large->ApproximateMemoryUsage();
  const uint64_t looks =
      LooksOf([&] { table_->Insert(kBlocks, std::move(large)); });
  EXPECT_LE(looks, ClockBlockCache::kMaxSpared + bytes / Charge() + 1);
  EXPECT_TRUE(table_->Lookup(kBlocks));
  EXPECT_LE(cache_->GetUsage(), cache_->GetCapacity());
}

TEST_P(ClockBlockCacheLooksTest, InsertionPassesFewPinnedBlocks) {
  std::vector<BlockRef> pinned;
  for (size_t j = 0; j < kBlocks; ++j) pinned.push_back(table_->Lookup(j));
  EXPECT_LE(LooksOf([&] { table_->Insert(kBlocks, Block100()); }),
            ClockBlockCache::kMaxPinned);
  EXPECT_GT(cache_->GetUsage(), cache_->GetCapacity());
  // What is too much is evicted in parts, too.
  cache_->SetCapacity(0);
  pinned.clear();
  size_t calls = 0;
  for (; cache_->GetUsage() > 0; ++calls) {
    ASSERT_LT(calls, kBlocks);
    ASSERT_LE(LooksOf([&] { table_->Admit(0); }),
              ClockBlockCache::kMaxSpared + ClockBlockCache::kMaxEvicted);
  }
  EXPECT_GE(calls, kBlocks / ClockBlockCache::kMaxEvicted);
}

TEST_P(ClockBlockCacheTest, PinInTheLastMomentKeepsTheBlockB2) {
  const auto cache = NewCache(1 << 20);
  TestTable table(Blocks(cache), 1);
  table.Insert(0, MakeBlock("value"));
  Actor reader;
  Block* found = nullptr;
  reader.Do([&] {
    EpochGuard::Enter(CurrentThreadRecord());
    found = LoadSlot(&table, 0);
  });
  // The hand sees no pin.
  cache->EraseUnreferenced();
  reader.Do([&] {
    found->Pin();
    EpochGuard::Exit(CurrentThreadRecord());
  });
  TEST_DrainRetired();
  EXPECT_EQ(cache->GetUsage(), 0u);
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
  EXPECT_TRUE(found->IsPinned());
  EXPECT_EQ(ValueOf(*found), "value");
  // The place is free for the block to be read again.
  EXPECT_EQ(ValueOf(table.Insert(0, MakeBlock("again"))), "again");
  EXPECT_EQ(ValueOf(*found), "value");
  Block::Unpin(found);
}

TEST_P(BlockCacheTest, TablesGoWhileOthersEvictB3) {
  constexpr size_t kBlocks = 40;
  const auto cache = NewCache(kBlocks * Charge());
  std::atomic<bool> stop = false;
  std::vector<std::thread> evictors;
  for (int i = 0; i < 2; ++i) {
    evictors.emplace_back([&] {
      TestTable table(Blocks(cache), kBlocks);
      // relaxed: only a request to stop.
      for (size_t j = 0; !stop.load(std::memory_order_relaxed); ++j) {
        table.Insert(j % kBlocks, Block100());
        if (j % 50 == 0) cache->EraseUnreferenced();
      }
    });
  }
  for (int round = 0; round < 500; ++round) {
    TestTable table(Blocks(cache), kBlocks);
    for (size_t i = 0; i < kBlocks; ++i) table.Insert(i, Block100());
    table.Erase();
    for (size_t i = 0; i < kBlocks; ++i) ASSERT_FALSE(table.Lookup(i));
  }
  // relaxed: as above.
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& evictor : evictors) evictor.join();
  EXPECT_EQ(cache->GetUsage(), 0u);
}

// ---- All at once ----

TEST_P(BlockCacheTest, ThreadsShareBlocks) {
  constexpr uint64_t kThreads = 4;
  constexpr size_t kTables = 3;
  constexpr size_t kBlocks = 20;
  const uint64_t seed = test::TestSeed();
  const auto cache = NewCache(kBlocks * Charge());
  std::vector<std::unique_ptr<TestTable>> tables;
  for (size_t i = 0; i < kTables; ++i) {
    tables.push_back(std::make_unique<TestTable>(Blocks(cache), kBlocks));
  }
  std::atomic<int> wrong = 0;
  const auto work = [&](uint64_t thread) {
    test::Rng random(seed + thread);
    std::vector<BlockRef> held(3);
    for (int i = 0; i < 5000; ++i) {
      const size_t t = random.Below(kTables);
      TestTable& table = *tables[t];
      const size_t block = random.Below(kBlocks);
      std::string value = std::to_string(t) + "/" + std::to_string(block);
      value.resize(100);
      {
        // As a point lookup does: without a pin.
        const EpochGuard section;
        Block* const found = LoadSlot(&table, block);
        if (found != nullptr) {
          found->Touch();
          wrong += ValueOf(*found) != value;
        }
      }
      BlockRef ref = table.Lookup(block);
      if (!ref) ref = table.Insert(block, MakeBlock(value));
      wrong += ValueOf(ref) != value;
      held[random.Below(held.size())] = std::move(ref);
      if (random.OneIn(100)) table.Erase();
      if (random.OneIn(100)) cache->EraseUnreferenced();
      if (random.OneIn(100)) cache->GetPinnedUsage();
      if (random.OneIn(100)) {
        cache->SetCapacity(random.Below(kBlocks) * Charge());
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(cache->GetPinnedUsage(), 0u);
  cache->SetCapacity(kBlocks / 2 * Charge());
  EXPECT_LE(cache->GetUsage(), kBlocks / 2 * Charge());
  cache->EraseUnreferenced();
  EXPECT_EQ(cache->GetUsage(), 0u);
}

}  // namespace
}  // namespace varve
