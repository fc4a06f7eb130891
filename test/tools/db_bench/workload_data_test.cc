// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: db_bench's keys and values are what other tools expect, and a random
// order takes each key once. Method: compare with keys written out by hand,
// and mark the numbers that a permutation gives.
#include "tools/db_bench/workload_data.h"
#include "test/testing/test_headers.h"

#include <snappy.h>

namespace varve {
namespace {

std::string Key(uint64_t number, size_t key_bytes) {
  std::string key(key_bytes, 'x');
  WriteKey(number, key_bytes, key.data());
  return key;
}

TEST(WorkloadDataTest, KeysAreBigEndianNumbersFilledUpWithZeros) {
  EXPECT_EQ(Slice(Key(0x0102, 16)).ToString(true),
            "00000000000001023030303030303030");
  EXPECT_EQ(Slice(Key(0x0102, 8)).ToString(true), "0000000000000102");
  EXPECT_EQ(Slice(Key(0x0102, 2)).ToString(true), "0102");
  EXPECT_EQ(Slice(Key(0x0102, 1)).ToString(true), "02");
}

TEST(WorkloadDataTest, TextKeysAreHexadecimalNumbersFilledUpWithZeros) {
  std::string key(18, 'x');
  WriteTextKey(0x01AF, key.size(), key.data());
  EXPECT_EQ(key, "00000000000001AF00");
  key.resize(3);
  WriteTextKey(0x01AF, key.size(), key.data());
  EXPECT_EQ(key, "1AF");
}

TEST(WorkloadDataTest, KeysAreInTheOrderOfTheirNumbers) {
  for (const size_t key_bytes : {2, 8, 16}) {
    for (uint64_t number = 1; number < 1000; ++number) {
      EXPECT_LT(Slice(Key(number - 1, key_bytes))
                    .compare(Slice(Key(number, key_bytes))),
                0);
    }
  }
}

TEST(WorkloadDataTest, PrefixesTakeTurnsBeforeTheNumber) {
  const auto key = [](size_t prefix_bytes, uint64_t prefixes, uint64_t number) {
    std::string text(12, 'x');
    WriteKey(KeyPrefix{prefix_bytes, prefixes}, number, text.size(),
             text.data());
    return Slice(text).ToString(true);
  };
  EXPECT_EQ(key(2, 3, 0x0104), "000200000000000001043030");
  EXPECT_EQ(key(10, 1, 0x0104), "000000000000000030300104");
  EXPECT_EQ(key(10, 0x1000, 0x0104), "000000000000010430300104");
  EXPECT_EQ(key(2, 0, 0x0104), "000000000000010430303030");
}

TEST(WorkloadDataTest, PermutationTakesEachNumberOnce) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 63, 64, 65, 1000, 65537}) {
    const Permutation permutation(size, 7);
    std::vector<bool> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t number = permutation.At(i);
      ASSERT_LT(number, size);
      EXPECT_FALSE(seen[number]) << number << " twice of " << size;
      seen[number] = true;
    }
  }
}

TEST(WorkloadDataTest, PermutationsOfOtherSeedsAreOthers) {
  const Permutation first(1000, 1);
  const Permutation second(1000, 2);
  int same = 0;
  int ascending = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same += first.At(i) == second.At(i);
    if (i > 0) ascending += first.At(i - 1) < first.At(i);
  }
  EXPECT_LT(same, 20);
  EXPECT_GT(ascending, 400);
  EXPECT_LT(ascending, 600);
}

TEST(WorkloadDataTest, ValuesCompressToTheRatio) {
  for (const double ratio : {0.25, 0.5, 1.0}) {
    const std::string bytes = CompressibleBytes(1, ratio, 1 << 20);
    ASSERT_EQ(bytes.size(), size_t{1} << 20);
    ValueSource values(bytes, 100);
    std::string block;
    for (int i = 0; i < 40; ++i) block.append(values.Next().ToStringView());
    std::string compressed;
    snappy::Compress(block.data(), block.size(), &compressed);
    const double found = static_cast<double>(compressed.size()) /
                         static_cast<double>(block.size());
    EXPECT_NEAR(found, ratio, 0.1);
  }
}

TEST(WorkloadDataTest, ValuesHaveRandomSizesInTheirBounds) {
  const std::string bytes(5000, 'v');
  const auto deviation = [&](ValueSizes::Kind kind) {
    ValueSource values(bytes, {.kind = kind, .min = 100, .max = 1300}, 5);
    double squares = 0;
    for (int i = 0; i < 2000; ++i) {
      const size_t size = values.Next().size();
      EXPECT_GE(size, 100u);
      EXPECT_LE(size, 1300u);
      squares += (static_cast<double>(size) - 700) *
                 (static_cast<double>(size) - 700) / 2000;
    }
    return std::sqrt(squares);
  };
  EXPECT_NEAR(deviation(ValueSizes::kUniform), 346, 20);
  EXPECT_NEAR(deviation(ValueSizes::kNormal), 100, 10);
}

TEST(WorkloadDataTest, ValuesStartAgainAtTheEnd) {
  ValueSource values("abcde", 2);
  EXPECT_EQ(values.Next().ToString(), "ab");
  EXPECT_EQ(values.Next().ToString(), "cd");
  EXPECT_EQ(values.Next().ToString(), "ab");
}

}  // namespace
}  // namespace varve
