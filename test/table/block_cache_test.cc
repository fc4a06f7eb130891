// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: the cache counts bytes exactly, evicts what was used least lately,
// never what is in use, and gives every thread the same block. Method: blocks
// of one size in caches of known capacity; threads that race on few blocks,
// each of which says in its bytes whose it is.
#include "table/block_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "table/block_builder.h"
#include "test/testing/seed.h"

namespace varve {
namespace {

std::unique_ptr<Block> MakeBlock(const std::string& value) {
  BlockBuilder builder(16);
  builder.Add(MakeInternalKey("key", PackTrailer(1, ValueType::kValue)), value);
  const std::string body = *builder.Finish();
  BlockContents contents;
  contents.data.reset(new char[body.size()]);
  memcpy(contents.data.get(), body.data(), body.size());
  contents.size = contents.allocated_bytes = body.size();
  std::unique_ptr<Block> block;
  const Status s = Block::Create(std::move(contents), &block);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return block;
}

std::string ValueOf(const BlockRef& ref) {
  static const InternalKeyComparator comparator(BytewiseComparator());
  BlockIterator it;
  it.Reset(ref.get(), &comparator, 0);
  it.SeekToFirst();
  return it.value().ToString();
}

// The charge of one block with a value of 100 bytes.
size_t Charge() {
  return BlockCache::ChargeOf(*MakeBlock(std::string(100, 'v')));
}
std::unique_ptr<Block> Block100() { return MakeBlock(std::string(100, 'v')); }

CacheOptions Capacity(size_t bytes, bool strict = false) {
  CacheOptions options;
  options.capacity_bytes = bytes;
  options.strict_capacity_limit = strict;
  return options;
}

TEST(BlockCacheTest, FindsWhatWasInserted) {
  BlockCache cache(Capacity(1 << 20));
  EXPECT_FALSE(cache.Lookup(1, 0));
  EXPECT_EQ(ValueOf(cache.Insert(1, 0, MakeBlock("one"))), "one");
  EXPECT_EQ(ValueOf(cache.Insert(1, 64, MakeBlock("two"))), "two");
  EXPECT_EQ(ValueOf(cache.Insert(2, 0, MakeBlock("three"))), "three");
  EXPECT_EQ(ValueOf(cache.Lookup(1, 0)), "one");
  EXPECT_EQ(ValueOf(cache.Lookup(1, 64)), "two");
  EXPECT_EQ(ValueOf(cache.Lookup(2, 0)), "three");
  EXPECT_FALSE(cache.Lookup(2, 64));
  EXPECT_NE(cache.NewTableId(), cache.NewTableId());
}

TEST(BlockCacheTest, EvictsLeastRecentlyUsed) {
  BlockCache cache(Capacity(3 * Charge()));
  for (uint64_t i = 0; i < 3; ++i) cache.Insert(1, i, Block100());
  EXPECT_EQ(cache.GetUsage(), 3 * Charge());
  EXPECT_TRUE(cache.Lookup(1, 0));
  cache.Insert(1, 3, Block100());
  EXPECT_EQ(cache.GetUsage(), 3 * Charge());
  EXPECT_TRUE(cache.Lookup(1, 0));
  EXPECT_FALSE(cache.Lookup(1, 1));
  EXPECT_TRUE(cache.Lookup(1, 2));
  EXPECT_TRUE(cache.Lookup(1, 3));
}

TEST(BlockCacheTest, KeepsPinnedBlocks) {
  BlockCache cache(Capacity(2 * Charge()));
  BlockRef first = cache.Insert(1, 0, Block100());
  BlockRef again = cache.Lookup(1, 0);
  EXPECT_EQ(first.get(), again.get());
  EXPECT_EQ(cache.GetPinnedUsage(), Charge());
  for (uint64_t i = 1; i < 5; ++i) cache.Insert(1, i, Block100());
  EXPECT_EQ(cache.GetUsage(), 2 * Charge());
  EXPECT_TRUE(cache.Lookup(1, 0));
  first.Reset();
  EXPECT_EQ(cache.GetPinnedUsage(), Charge());
  again.Reset();
  EXPECT_EQ(cache.GetPinnedUsage(), 0u);
  EXPECT_EQ(cache.GetUsage(), 2 * Charge());
}

TEST(BlockCacheTest, ExceedsCapacityOnlyWhilePinned) {
  BlockCache cache(Capacity(2 * Charge()));
  std::vector<BlockRef> refs;
  for (uint64_t i = 0; i < 4; ++i)
    refs.push_back(cache.Insert(1, i, Block100()));
  EXPECT_EQ(cache.GetUsage(), 4 * Charge());
  EXPECT_EQ(cache.GetPinnedUsage(), 4 * Charge());
  refs.clear();
  EXPECT_EQ(cache.GetUsage(), 2 * Charge());
  EXPECT_EQ(cache.GetPinnedUsage(), 0u);
}

TEST(BlockCacheTest, StrictLimitIsNotExceeded) {
  BlockCache cache(Capacity(2 * Charge(), true));
  std::vector<BlockRef> refs;
  for (uint64_t i = 0; i < 4; ++i)
    refs.push_back(cache.Insert(1, i, Block100()));
  EXPECT_EQ(cache.GetUsage(), 2 * Charge());
  EXPECT_TRUE(cache.Lookup(1, 1));
  EXPECT_FALSE(cache.Lookup(1, 2));
  // It is the caller's own, and of use.
  EXPECT_EQ(ValueOf(refs[3]), std::string(100, 'v'));
}

TEST(BlockCacheTest, CachesNothingWithoutCapacity) {
  BlockCache cache(Capacity(0));
  BlockRef ref = cache.Insert(1, 0, MakeBlock("value"));
  EXPECT_EQ(ValueOf(ref), "value");
  EXPECT_FALSE(cache.Lookup(1, 0));
  EXPECT_EQ(cache.GetUsage(), 0u);
}

TEST(BlockCacheTest, BlockLargerThanCapacityEvictsNothing) {
  BlockCache cache(Capacity(2 * Charge()));
  cache.Insert(1, 0, Block100());
  EXPECT_TRUE(cache.Insert(1, 1, MakeBlock(std::string(10000, 'v'))));
  EXPECT_TRUE(cache.Lookup(1, 0));
  EXPECT_FALSE(cache.Lookup(1, 1));
}

TEST(BlockCacheTest, SecondInsertGetsTheFirstBlock) {
  BlockCache cache(Capacity(1 << 20));
  BlockRef winner = cache.Insert(1, 0, MakeBlock("winner"));
  BlockRef loser = cache.Insert(1, 0, MakeBlock("loser"));
  EXPECT_EQ(winner.get(), loser.get());
  EXPECT_EQ(cache.GetUsage(), BlockCache::ChargeOf(*winner.get()));
}

TEST(BlockCacheTest, ChangesCapacity) {
  BlockCache cache(Capacity(4 * Charge()));
  for (uint64_t i = 0; i < 4; ++i) cache.Insert(1, i, Block100());
  cache.SetCapacity(Charge());
  EXPECT_EQ(cache.GetCapacity(), Charge());
  EXPECT_EQ(cache.GetUsage(), Charge());
  EXPECT_TRUE(cache.Lookup(1, 3));
  cache.SetCapacity(0);
  EXPECT_EQ(cache.GetUsage(), 0u);
}

TEST(BlockCacheTest, ErasesUnreferenced) {
  BlockCache cache(Capacity(1 << 20));
  BlockRef pinned = cache.Insert(1, 0, Block100());
  cache.Insert(1, 1, Block100());
  cache.EraseUnreferenced();
  EXPECT_EQ(cache.GetUsage(), Charge());
  EXPECT_TRUE(cache.Lookup(1, 0));
  EXPECT_FALSE(cache.Lookup(1, 1));
}

TEST(BlockCacheTest, ErasesTables) {
  BlockCache cache(Capacity(32 << 20));
  BlockRef pinned = cache.Insert(1, 7, Block100());
  for (uint64_t i = 0; i < 100; ++i) {
    cache.Insert(1, 100 * i, Block100());
    cache.Insert(2, 100 * i, Block100());
  }
  cache.EraseTable(1);
  cache.EraseTable(3);
  EXPECT_FALSE(cache.Lookup(1, 7));
  EXPECT_EQ(ValueOf(pinned), std::string(100, 'v'));
  EXPECT_EQ(cache.GetUsage(), 101 * Charge());
  pinned.Reset();
  EXPECT_EQ(cache.GetUsage(), 100 * Charge());
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(cache.Lookup(1, 100 * i));
    EXPECT_TRUE(cache.Lookup(2, 100 * i));
  }
}

TEST(BlockCacheTest, RefsMoveAndDetach) {
  BlockCache cache(Capacity(1 << 20));
  BlockRef ref = cache.Insert(1, 0, Block100());
  BlockRef other = std::move(ref);
  EXPECT_TRUE(other);
  ref = std::move(other);
  void* detached = ref.Detach();
  EXPECT_FALSE(ref);
  EXPECT_EQ(cache.GetPinnedUsage(), Charge());
  BlockRef::Release(detached);
  EXPECT_EQ(cache.GetPinnedUsage(), 0u);
  // And without a cache.
  BlockRef own(MakeBlock("own"));
  EXPECT_EQ(ValueOf(own), "own");
}

TEST(BlockCacheTest, ManyShardsAddUpToTheCapacity) {
  const size_t capacity = (size_t{200} << 20) + 13;
  const auto cache = NewBlockCache(capacity);
  EXPECT_EQ(cache->GetCapacity(), capacity);
  auto* blocks = static_cast<BlockCache*>(cache.get());
  for (uint64_t i = 0; i < 400; ++i) {
    blocks->Insert(i % 3, i * 4096, MakeBlock(std::string(1 << 20, 'v')));
  }
  EXPECT_LE(cache->GetUsage(), capacity);
  EXPECT_GT(cache->GetUsage(), capacity * 3 / 4);
}

TEST(BlockCacheTest, ThreadsShareBlocks) {
  constexpr int kThreads = 4;
  constexpr uint64_t kTables = 3;
  constexpr uint64_t kBlocks = 20;
  const uint64_t seed = test::TestSeed();
  BlockCache cache(Capacity(kBlocks * Charge()));
  std::atomic<bool> wrong = false;
  const auto work = [&](uint64_t thread) {
    test::Rng random(seed + thread);
    std::vector<BlockRef> held(3);
    for (int i = 0; i < 5000; ++i) {
      const uint64_t table = random.Below(kTables);
      const uint64_t offset = random.Below(kBlocks);
      std::string value = std::to_string(table) + "/" + std::to_string(offset);
      value.resize(100);
      BlockRef ref = cache.Lookup(table, offset);
      if (!ref) ref = cache.Insert(table, offset, MakeBlock(value));
      // relaxed: read when the threads are joined.
      if (ValueOf(ref) != value) wrong.store(true, std::memory_order_relaxed);
      held[random.Below(held.size())] = std::move(ref);
      if (random.OneIn(100)) cache.EraseTable(random.Below(kTables));
      if (random.OneIn(100)) cache.EraseUnreferenced();
      if (random.OneIn(100)) {
        cache.SetCapacity(random.Below(kBlocks) * Charge());
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong.load());
  EXPECT_EQ(cache.GetPinnedUsage(), 0u);
  EXPECT_LE(cache.GetUsage(), cache.GetCapacity());
  cache.EraseUnreferenced();
  EXPECT_EQ(cache.GetUsage(), 0u);
}

}  // namespace
}  // namespace varve
