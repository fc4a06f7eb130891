// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: checksums equal the ones in existing files, however the bytes are
// passed. Method: known values, splits at every point.
#include "util/bytes/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "varve/slice.h"

namespace varve {
namespace {

constexpr ChecksumType kTypes[] = {
    ChecksumType::kNone, ChecksumType::kCrc32c, ChecksumType::kXxHash32,
    ChecksumType::kXxHash64, ChecksumType::kXxh3};

TEST(ChecksumTest, GivesKnownCrcValues) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(MaskCrc(0xe3069283), 0xc78ab0e5u);
  EXPECT_EQ(Crc32c("", 0), 0u);
  EXPECT_EQ(MaskCrc(0), 0xa282ead8u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
}

TEST(ChecksumTest, ExtendsCrcFromAnySplit) {
  std::string data;
  for (int i = 0; i < 600; i++) data.push_back(static_cast<char>(i * 7));
  const uint32_t whole = Crc32c(data.data(), data.size());
  for (size_t split = 0; split <= data.size(); split++) {
    const uint32_t front = Crc32c(data.data(), split);
    EXPECT_EQ(Crc32cExtend(front, data.data() + split, data.size() - split),
              whole)
        << split;
  }
}

TEST(ChecksumTest, UnmasksWhatItMasked) {
  for (const uint32_t crc :
       {0u, 1u, 0x7fffffffu, 0x80000000u, 0xdeadbeefu, 0xffffffffu}) {
    EXPECT_EQ(UnmaskCrc(MaskCrc(crc)), crc);
    EXPECT_NE(MaskCrc(crc), crc);
  }
}

TEST(ChecksumTest, GivesKnownBlockChecksums) {
  std::string bytes;
  for (int i = 0; i < 512; i++) bytes.push_back(static_cast<char>(i));
  const struct {
    std::string body;
    char type;
    uint32_t expected[5];
  } kVectors[] = {
      {"", 0, {0, 0x49258fd2, 0xcf65b03e, 0xdb052768, 0x38d394c2}},
      {"", 1, {0, 0x43282b05, 0x3892f731, 0x1b21e730, 0x5343171b}},
      {"hello", 0, {0, 0x838fa897, 0x76c3f8e8, 0x2fec4e26, 0x5c62dcfd}},
      {"hello", 1, {0, 0x898e4440, 0xa1fdd613, 0x6d66dbe3, 0x37f25f24}},
      {"hello", 7, {0, 0xcb5dff03, 0x60b84af6, 0xe49851e1, 0xac914612}},
      {bytes, 1, {0, 0x07321fd6, 0xe613ec46, 0xdb006eaa, 0xba0b79d0}},
  };
  for (const auto& vector : kVectors) {
    const std::string& body = vector.body;
    const std::string stored = body + vector.type;
    for (const ChecksumType type : kTypes) {
      const uint32_t expected = vector.expected[static_cast<size_t>(type)];
      EXPECT_EQ(BlockChecksum(type, stored.data(), body.size()), expected);
    }
  }
}

TEST(ChecksumTest, KnowsItsTypes) {
  for (unsigned value = 0; value < 256; value++) {
    EXPECT_EQ(IsChecksumType(static_cast<uint8_t>(value)), value <= 4);
  }
}

}  // namespace
}  // namespace varve
