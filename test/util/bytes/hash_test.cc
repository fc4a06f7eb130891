// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: the hashes equal the ones in existing files, to the bit. Method: values
// taken from other programs' files, around every change of method; copies of
// exact size for the sanitizers.
#include "util/bytes/hash.h"
#include "test/testing/test_headers.h"

namespace varve {
namespace {

TEST(HashTest, GivesPreviewValuesForShortStrings) {
  EXPECT_EQ(PreviewXxh3(""), 0x5342c3010fe1dd04u);
  EXPECT_EQ(PreviewXxh3("a"), 0x88d868bf607681c7u);
  EXPECT_EQ(PreviewXxh3("abc"), 0xd39eeb71bb5342e8u);
  EXPECT_EQ(PreviewXxh3("abcd"), 0x97a5ba1d02e8378cu);
  EXPECT_EQ(PreviewXxh3("abcdefghi"), 0x4b6f47358ab1c286u);
}

TEST(HashTest, GivesPreviewValuesAroundEveryChangeOfMethod) {
  const struct {
    size_t size;
    uint64_t hash;
  } kVectors[] = {
      {8, 0x6160be29311caf7d},    {9, 0xddd9d6c2f6f5d10c},
      {16, 0x21502554b6c54d8a},   {17, 0x8e05c4f55cb6b4b7},
      {32, 0x37c8250880955b1c},   {33, 0x17e3f40b4d63f93c},
      {64, 0xd89561270149ca90},   {65, 0x04fb17eaa6c03030},
      {96, 0x80716fbe56ffbcc8},   {97, 0xfe41ace5cc5863bd},
      {128, 0x3304356a081e6f8f},  {129, 0x60630e426fcf92d8},
      {143, 0x58f4a53af95ed0c2},  {144, 0x172f6e677f49fa0a},
      {240, 0x66b960e005a92de9},  {241, 0xc88819340e98c88b},
      {255, 0x7fd353415c0efad4},  {256, 0x8fd1908ccea8e54e},
      {1023, 0xd40f1aeb9cc53c57}, {1024, 0x2e9da5448faa9237},
      {1025, 0x28f0e2b61216934b}, {1088, 0x280a946467a7548b},
      {2048, 0x458cf9dc98a8a567}, {3000, 0x63b58556a981b25a},
  };
  for (const auto& vector : kVectors) {
    const std::unique_ptr<char[]> key(new char[vector.size]);
    for (size_t i = 0; i < vector.size; i++) {
      key[i] = static_cast<char>(31 * i + vector.size);
    }
    EXPECT_EQ(PreviewXxh3(Slice(key.get(), vector.size)), vector.hash)
        << vector.size;
  }
}

TEST(HashTest, DependsOnEveryByteAndOnTheLength) {
  for (const size_t size :
       {1u, 3u, 4u, 8u, 9u, 16u, 17u, 128u, 129u, 240u, 241u, 1024u, 1100u}) {
    std::string key(size, 'k');
    const uint64_t hash = PreviewXxh3(key);
    EXPECT_NE(PreviewXxh3(key + 'k'), hash) << size;
    for (size_t i = 0; i < size; i++) {
      key[i] = 'K';
      EXPECT_NE(PreviewXxh3(key), hash) << size << " byte " << i;
      key[i] = 'k';
    }
  }
}

TEST(HashTest, GivesKnownHash32Values) {
  constexpr uint32_t kSeed = 0xbc9f1d34;
  for (const TailBytes tail :
       {TailBytes::kZeroExtended, TailBytes::kSignExtended}) {
    EXPECT_EQ(Hash32("a", kSeed, tail), 0x286e9db0u);
    EXPECT_EQ(Hash32("abcd", kSeed, tail), 0xb9c83353u);
    EXPECT_EQ(Hash32("", kSeed, tail), kSeed);
  }
}

TEST(HashTest, WidensHighTailBytesAsAsked) {
  constexpr uint32_t kSeed = 0xbc9f1d34;
  const Slice key("ab\xff");
  EXPECT_EQ(Hash32(key, kSeed, TailBytes::kZeroExtended), 0xa2f10108u);
  EXPECT_EQ(Hash32(key, kSeed, TailBytes::kSignExtended), 0x0ff101a5u);
  // Bytes inside a whole word are not widened at all.
  EXPECT_EQ(Hash32("ab\xff\xff", kSeed, TailBytes::kZeroExtended),
            Hash32("ab\xff\xff", kSeed, TailBytes::kSignExtended));
}

}  // namespace
}  // namespace varve
