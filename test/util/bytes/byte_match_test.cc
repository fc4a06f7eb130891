// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: exactly the places of a byte are found. Method: every byte at every
// place, and random bytes against a loop, at every alignment.
#include "util/bytes/byte_match.h"

#include <gtest/gtest.h>

#include <memory>

#include "test/testing/seed.h"

namespace varve {
namespace {

TEST(ByteMatchTest, FindsEveryByteAtEveryPlace) {
  for (int byte = 0; byte < 256; ++byte) {
    for (uint32_t place = 0; place < 16; ++place) {
      char bytes[16];
      memset(bytes, byte ^ 0x80, sizeof(bytes));
      EXPECT_EQ(MatchByte16(bytes, static_cast<uint8_t>(byte)), 0u);
      bytes[place] = static_cast<char>(byte);
      EXPECT_EQ(MatchByte16(bytes, static_cast<uint8_t>(byte)), 1u << place);
    }
    char all[16];
    memset(all, byte, sizeof(all));
    EXPECT_EQ(MatchByte16(all, static_cast<uint8_t>(byte)), 0xFFFFu);
  }
}

TEST(ByteMatchTest, FindsAllPlacesAtAnyAlignment) {
  test::Rng random(test::TestSeed());
  for (int round = 0; round < 2000; ++round) {
    // The memory ends with the 16 bytes.
    const size_t skip = random.Below(17);
    const std::unique_ptr<char[]> memory(new char[skip + 16]);
    char* const bytes = memory.get() + skip;
    for (int i = 0; i < 16; ++i) {
      bytes[i] = static_cast<char>(0xFE + random.Below(4));
    }
    const auto byte = static_cast<uint8_t>(0xFE + random.Below(4));
    uint32_t expected = 0;
    for (uint32_t i = 0; i < 16; ++i) {
      if (static_cast<uint8_t>(bytes[i]) == byte) expected |= 1u << i;
    }
    ASSERT_EQ(MatchByte16(bytes, byte), expected);
  }
}

}  // namespace
}  // namespace varve
