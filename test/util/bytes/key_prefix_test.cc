// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: prefixes order keys as their bytes do, as far as they tell, and the
// search in them finds what a plain one finds. Method: all pairs of keys that
// are hard to tell apart; random arrays against std::lower_bound.
#include "util/bytes/key_prefix.h"

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

// In memory that ends with the key, so that a byte read too far is noticed.
uint64_t PrefixOf(const std::string& key, size_t skip) {
  const std::unique_ptr<char[]> exact(new char[key.size()]);
  std::copy(key.begin(), key.end(), exact.get());
  return KeyPrefix(Slice(exact.get(), key.size()), skip);
}

TEST(KeyPrefixTest, ReadsEightBytesBigEndFirst) {
  EXPECT_EQ(PrefixOf("", 0), 0u);
  EXPECT_EQ(PrefixOf("a", 0), 0x6100000000000000u);
  EXPECT_EQ(PrefixOf("abcdefgh", 0), 0x6162636465666768u);
  EXPECT_EQ(PrefixOf("abcdefghi", 0), 0x6162636465666768u);
  EXPECT_EQ(PrefixOf("abcdefghi", 1), 0x6263646566676869u);
  EXPECT_EQ(PrefixOf("abcdefghi", 8), 0x6900000000000000u);
  EXPECT_EQ(PrefixOf("abcdefghi", 9), 0u);
  EXPECT_EQ(PrefixOf(std::string(20, '\xFF'), 3), UINT64_MAX);
}

TEST(KeyPrefixTest, OrdersAsBytesDo) {
  test::Rng random(test::TestSeed());
  std::vector<std::string> keys;
  for (int i = 0; i < 400; ++i) {
    std::string key(random.Below(12), '\0');
    for (char& c : key) c = random.Pick({'\0', '\x01', '\x7F', '\x80', '\xFF'});
    keys.push_back(key);
  }
  for (const std::string& a : keys) {
    for (const std::string& b : keys) {
      const size_t skip = std::min({a.size(), b.size(), size_t{2}});
      const uint64_t a_prefix = PrefixOf(a, skip);
      const uint64_t b_prefix = PrefixOf(b, skip);
      const int order = Slice(a.substr(skip)).compare(b.substr(skip));
      if (a_prefix < b_prefix) {
        ASSERT_LT(order, 0);
      } else if (a_prefix == b_prefix) {
        std::string a_bytes = a.substr(skip, 8);
        std::string b_bytes = b.substr(skip, 8);
        a_bytes.resize(8);
        b_bytes.resize(8);
        ASSERT_EQ(a_bytes, b_bytes);
      }
    }
  }
}

TEST(KeyPrefixTest, LowerBoundFindsTheFirst) {
  test::Rng random(test::TestSeed());
  for (size_t count = 0; count < 100; ++count) {
    for (const uint64_t spread : {1u, 3u, 1000u}) {
      std::vector<uint64_t> prefixes(count);
      for (uint64_t& prefix : prefixes) prefix = random.Below(spread);
      if (count > 0 && random.OneIn(2)) prefixes.back() = UINT64_MAX;
      std::sort(prefixes.begin(), prefixes.end());
      std::vector<uint64_t> wanted = {0, UINT64_MAX, UINT64_MAX - 1};
      for (const uint64_t prefix : prefixes) {
        wanted.insert(wanted.end(), {prefix - 1, prefix, prefix + 1});
      }
      for (const uint64_t prefix : wanted) {
        const auto expected =
            std::lower_bound(prefixes.begin(), prefixes.end(), prefix);
        ASSERT_EQ(LowerBoundPrefix(prefixes.data(), count, prefix),
                  static_cast<size_t>(expected - prefixes.begin()));
      }
    }
  }
}

// An index that is out of order must not lead beyond itself.
TEST(KeyPrefixTest, LowerBoundIsNotBelowEvenWithoutOrder) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint64_t> prefixes(random.Below(40));
    for (uint64_t& prefix : prefixes) prefix = random.Below(8);
    const uint64_t prefix = random.Below(9);
    const size_t i = LowerBoundPrefix(prefixes.data(), prefixes.size(), prefix);
    ASSERT_LE(i, prefixes.size());
    if (i < prefixes.size()) {
      ASSERT_GE(prefixes[i], prefix);
    }
  }
}

}  // namespace
}  // namespace varve
