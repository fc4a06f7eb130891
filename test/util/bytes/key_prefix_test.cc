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

// Strings that end with their memory, so that a byte read too far is noticed.
class ExactBytes {
 public:
  explicit ExactBytes(const std::string& bytes)
      : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.get());
  }
  Slice slice() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

uint64_t PrefixOf(const std::string& key, size_t skip) {
  return KeyPrefix(ExactBytes(key).slice(), skip);
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

// Keys that are hard to tell apart: short and long ones that have much in
// common, at the bounds of words and of what a number can say.
std::vector<ExactBytes> CloseKeys(int count) {
  test::Rng random(test::TestSeed());
  std::vector<ExactBytes> keys;
  for (const int size : {0, 1, 6, 7, 8, 9, 14, 15, 16, 126, 127, 128, 140}) {
    keys.emplace_back(std::string(static_cast<size_t>(size), '\x7F'));
  }
  for (int i = 0; i < count; ++i) {
    std::string key(random.Pick({0, 3, 8, 12, 120, 125, 127, 130}), '\x7F');
    const size_t more = random.Below(14);
    for (size_t j = 0; j < more; ++j) {
      key += random.Pick({'\0', '\x01', '\x7F', '\x80', '\xFF'});
    }
    keys.emplace_back(key);
  }
  return keys;
}

TEST(KeyPrefixTest, CommonPrefixesEndAtTheFirstDifference) {
  const std::vector<ExactBytes> keys = CloseKeys(100);
  for (const ExactBytes& a : keys) {
    for (const ExactBytes& b : keys) {
      size_t expected = 0;
      while (expected < a.slice().size() && expected < b.slice().size() &&
             a.slice()[expected] == b.slice()[expected]) {
        ++expected;
      }
      ASSERT_EQ(CommonPrefixSize(a.slice(), b.slice()), expected);
      ASSERT_EQ(CommonPrefixSize(a.slice(), b.slice(), 9),
                std::min<size_t>(expected, 9));
    }
  }
}

TEST(KeyPrefixTest, RelativePrefixesOrderAsBytesDo) {
  const std::vector<ExactBytes> keys = CloseKeys(200);
  const auto rest = [](const Slice& key, size_t from) {
    return from >= key.size() ? 0 : KeyPrefix(key, from);
  };
  int equal = 0;
  for (size_t r = 0; r < keys.size(); r += 3) {
    const Slice reference = keys[r].slice();
    for (const ExactBytes& a : keys) {
      const uint64_t of_a = RelativePrefix(a.slice(), reference);
      for (const ExactBytes& b : keys) {
        const uint64_t of_b = RelativePrefix(b.slice(), reference);
        const int order = a.slice().compare(b.slice());
        if (of_a != of_b) {
          ASSERT_EQ(of_a < of_b, order < 0)
              << a.slice().ToString(true) << " and " << b.slice().ToString(true)
              << " beside " << reference.ToString(true);
          continue;
        }
        // The bytes that follow order keys with one number.
        const size_t end = RelativePrefixEnd(of_a);
        const uint64_t rest_of_a = rest(a.slice(), end);
        const uint64_t rest_of_b = rest(b.slice(), end);
        if (rest_of_a != rest_of_b) {
          ASSERT_EQ(rest_of_a < rest_of_b, order < 0);
        }
        if (order != 0) ++equal;
      }
    }
  }
  EXPECT_GT(equal, 0);
}

TEST(KeyPrefixTest, RelativePrefixesTellNeighboursApart) {
  const std::string reference = "user/profile/0000512345";
  for (const char* const pair :
       {"0000512344", "0000512346", "0000000000", "0000999998"}) {
    const std::string key = std::string("user/profile/") + pair;
    std::string next = key;
    next.back() = static_cast<char>(next.back() + 1);
    EXPECT_LT(RelativePrefix(key, reference), RelativePrefix(next, reference));
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
