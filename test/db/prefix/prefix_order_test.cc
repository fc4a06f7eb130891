// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: threads
//
// Goal: a memtable with a filter of prefixes has all entries that were added,
// in order, and its filter has all of their prefixes, also of deletions.
// Method: threads add to one memtable concurrently, and ask for what they
// added.

#include "db/prefix/prefix_order.h"

#include <thread>

#include "db/memtable/memtable.h"
#include "test/testing/test_headers.h"
#include "util/bytes/hash.h"
#include "varve/slice_transform.h"

namespace varve {
namespace {

std::string KeyOf(int thread, int number) {
  char key[32];
  snprintf(key, sizeof(key), "%d%05d/%d", thread, number / 4, number % 4);
  return key;
}

TEST(PrefixOrderTest, HasAllThatThreadsAdd) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  const InternalKeyComparator comparator(BytewiseComparator());
  Options options;
  options.write_buffer_size = 1 << 20;
  options.prefix_extractor = NewFixedPrefixTransform(6);
  options.memtable_prefix_bloom_size_ratio = 0.1;
  const SliceTransform& extractor = *options.prefix_extractor;
  MemTable memtable(&comparator, 1, options.write_buffer_size,
                    MemTableOrderFor(options));
  const auto may_have = [&](const Slice& prefix) {
    return memtable.MayHavePrefix(extractor, PreviewXxh3(prefix));
  };
  EXPECT_FALSE(may_have("000000"));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string key = KeyOf(t, i);
        const bool deletes = i % 3 == 0;
        memtable.Add(1 + static_cast<SequenceNumber>(t * kEach + i),
                     deletes ? ValueType::kDeletion : ValueType::kValue, key,
                     deletes ? Slice() : Slice("v"));
        EXPECT_TRUE(may_have(Slice(key.data(), 6))) << key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memtable.EntryCount(), uint64_t{kThreads} * kEach);
  const auto it = memtable.NewIterator();
  it->SeekToFirst();
  int absent = 0;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kEach; ++i, it->Next()) {
      const std::string key = KeyOf(t, i);
      ASSERT_TRUE(it->Valid());
      ASSERT_EQ(ExtractUserKey(it->key()), Slice(key));
      ASSERT_TRUE(may_have(Slice(key.data(), 6)));
      absent += may_have("x" + key.substr(0, 5)) ? 0 : 1;
    }
  }
  EXPECT_FALSE(it->Valid());
  EXPECT_GT(absent, kThreads * kEach * 9 / 10);
  // Another function has other prefixes.
  const auto other = NewFixedPrefixTransform(5);
  EXPECT_TRUE(memtable.MayHavePrefix(*other, PreviewXxh3("zzzzz")));
}

TEST(PrefixOrderTest, IsOnlyForOptionsThatAskForIt) {
  Options options;
  EXPECT_EQ(MemTableOrderFor(options), nullptr);
  options.memtable_prefix_bloom_size_ratio = 0.1;
  EXPECT_EQ(MemTableOrderFor(options), nullptr);
  options.prefix_extractor = NewNoopTransform();
  EXPECT_NE(MemTableOrderFor(options), nullptr);
  options.memtable_prefix_bloom_size_ratio = 0;
  EXPECT_EQ(MemTableOrderFor(options), nullptr);
}

}  // namespace
}  // namespace varve
