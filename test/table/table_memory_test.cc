// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: what finds the data in memory takes at most 8 % of the data's bytes:
// the indexes of tables with the slots of their blocks, and what blocks have
// before their entries. Method: tables of 16-byte keys and 100-byte values in
// blocks of 4 KiB, all of them read, and their own accounts, which are exact.

#include "table/build/table_builder.h"
#include "table/reader/table_core.h"
#include "table/reader/table_opener.h"
#include "test/testing/env/string_file.h"
#include "test/testing/env/string_random_access_file.h"
#include "test/testing/seed.h"
#include "test/testing/status_checks.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

constexpr int kEntries = 50000;
constexpr size_t kKeyBytes = 16;
constexpr size_t kValueBytes = 100;

// The user key of a number, in the order of numbers.
using KeyMaker = std::function<std::string(int)>;

struct Memory {
  size_t data_bytes = 0;    // Bytes of the user's keys and values.
  size_t index_bytes = 0;   // Bytes of the index, with its slots.
  size_t header_bytes = 0;  // Bytes of blocks before their entries.
  size_t block_bytes = 0;   // Bytes of blocks.
};

std::string Build(const InternalKeyComparator* comparator,
                  const KeyMaker& make_key) {
  TableBuilderOptions options;
  options.comparator = comparator;
  options.compression = CompressionType::kNone;
  testing::StringFile file;
  TableBuilder builder(options, &file);
  test::Rng random(1);
  for (int i = 0; i < kEntries; ++i) {
    const std::string key = make_key(i);
    EXPECT_EQ(key.size(), kKeyBytes);
    builder.Add(MakeInternalKey(key, PackTrailer(static_cast<uint64_t>(i + 1),
                                                 ValueType::kValue)),
                random.Bytes(kValueBytes));
  }
  EXPECT_TRUE(Ok(builder.Finish()));
  return file.contents();
}

Memory Measure(const KeyMaker& make_key) {
  const InternalKeyComparator comparator(BytewiseComparator());
  const std::string bytes = Build(&comparator, make_key);
  TableReaderOptions options;
  options.comparator = &comparator;
  options.file_size = bytes.size();
  const std::shared_ptr<Cache> cache = NewBlockCache(2 * bytes.size());
  options.block_cache = static_cast<BlockCache*>(cache.get());
  TableCore core;
  Status s = OpenTable(
      options,
      std::make_unique<testing::StringRandomAccessFile>(bytes, nullptr), &core);
  EXPECT_TRUE(Ok(s));
  Memory memory;
  memory.data_bytes = kEntries * (kKeyBytes + kValueBytes);
  memory.index_bytes = core.index.ApproximateMemoryUsage();
  for (size_t i = 0; i < core.index.size(); ++i) {
    BlockRef block;
    s = core.ReadDataBlock(ReadOptions(), i, nullptr, &block, nullptr);
    EXPECT_TRUE(Ok(s));
    if (!s.ok()) break;
    EXPECT_TRUE(block->has_fingerprints());
    memory.header_bytes += block->TEST_HeaderBytes();
    memory.block_bytes += block->ApproximateMemoryUsage();
  }
  return memory;
}

void CheckMemory(const char* what, const KeyMaker& make_key) {
  const Memory memory = Measure(make_key);
  const auto percent = [&](size_t bytes, size_t of) {
    return 100 * static_cast<double>(bytes) / static_cast<double>(of);
  };
  printf(
      "%s: index %.2f %%, block headers %.2f %%, all memory %.2f %% of the "
      "keys and values\n",
      what, percent(memory.index_bytes, memory.data_bytes),
      percent(memory.header_bytes, memory.data_bytes),
      percent(memory.index_bytes + memory.block_bytes, memory.data_bytes));
  // Every byte is accounted for: an entry has two lengths and a trailer, and
  // shares the first bytes of its key.
  EXPECT_LE(memory.block_bytes - memory.header_bytes,
            memory.data_bytes + kEntries * (2 + kTrailerSize));
  EXPECT_GT(memory.block_bytes - memory.header_bytes, kEntries * kValueBytes);
  EXPECT_GT(memory.index_bytes, 0u);
  EXPECT_LE(
      percent(memory.index_bytes + memory.header_bytes, memory.data_bytes),
      8.0);
}

TEST(TableMemoryTest, IndexAndHeadersAreSmallForDecimalKeys) {
  CheckMemory("decimal keys", [](int i) {
    char text[32];
    snprintf(text, sizeof(text), "user%012d", i);
    return std::string(text);
  });
}

TEST(TableMemoryTest, IndexAndHeadersAreSmallForBinaryKeys) {
  CheckMemory("binary keys", [](int i) {
    std::string key(kKeyBytes, '0');
    for (int byte = 0; byte < 8; ++byte) {
      key[static_cast<size_t>(byte)] =
          static_cast<char>(static_cast<uint64_t>(i) >> (56 - 8 * byte));
    }
    return key;
  });
}

// Keys that share nothing: separators are short, keys stand in full.
TEST(TableMemoryTest, IndexAndHeadersAreSmallForScatteredKeys) {
  CheckMemory("scattered keys", [](int i) {
    const auto spread = static_cast<uint64_t>(i) * (UINT64_MAX / kEntries);
    std::string key(kKeyBytes, 'x');
    for (int byte = 0; byte < 8; ++byte) {
      key[static_cast<size_t>(byte)] =
          static_cast<char>(spread >> (56 - 8 * byte));
    }
    return key;
  });
}

}  // namespace
}  // namespace varve
