// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Goal: what a build leaves out is refused by name, and never wrongly done.
// Method: each type of compression that this build does not have, and texts for
// a folding that it may not have. The tests of what is there are excluded from
// a build that lacks it; this one is in every build.
#include <gtest/gtest.h>

#include <string>

#include "test/testing/status_checks.h"
#include "util/bytes/checksum.h"
#include "util/bytes/compression.h"
#include "util/bytes/key_fold.h"
#include "util/bytes/unicode_fold.h"

namespace varve {
namespace {

TEST(LeftOutTest, CompressionIsRefusedByName) {
  std::string body;
  const std::string raw(1000, 'r');
  for (unsigned value = 0; value < 256; ++value) {
    const auto type = static_cast<CompressionType>(value);
    if (CompressionSupported(type)) {
      EXPECT_EQ(Compressor(type).Compress(raw, &body), value != 0) << value;
      continue;
    }
    EXPECT_FALSE(Compressor(type).Compress(raw, &body)) << value;
    size_t length = 0;
    const Status status = UncompressedLength(type, 5, "body", &length);
    // It is read, not written.
    if (type == CompressionType::kZSTDNotFinal && status.IsCorruption()) {
      continue;
    }
    EXPECT_TRUE(IsNotSupported(status, CompressionName(type)));
    char out[8];
    EXPECT_TRUE(UncompressInto(type, 5, "body", out, 8).IsNotSupported());
  }
}

TEST(LeftOutTest, DefaultCompressionIsBuiltIn) {
  EXPECT_TRUE(CompressionSupported(DefaultCompression()));
  if (CompressionSupported(CompressionType::kSnappy)) {
    EXPECT_EQ(DefaultCompression(), CompressionType::kSnappy);
  }
}

TEST(LeftOutTest, OnlyAsciiIsFoldedWithoutUtf8proc) {
  const std::string large(5000, 'A');
  for (const KeyFolding folding :
       {KeyFolding::kAsciiFirst, KeyFolding::kUnicode}) {
    std::string folded;
    ASSERT_TRUE(FoldText("Some ASCII", folding, &folded));
    EXPECT_EQ(folded, "some ascii");
    ASSERT_TRUE(FoldText(large, folding, &folded));
    EXPECT_EQ(folded, std::string(5000, 'a'));
    ASSERT_TRUE(FoldText("", folding, &folded));
    EXPECT_EQ(folded, "");
    for (const std::string& text :
         {std::string("\xC3\x89"), large + "\xC3\x89"}) {
      EXPECT_EQ(FoldText(text, folding, &folded), UnicodeFoldingSupported());
    }
  }
  const Status status = UnfoldableText("a name", "x");
  EXPECT_EQ(status.ToString(),
            UnicodeFoldingSupported()
                ? "Invalid argument: a name is not UTF-8: x"
                : "Not supported: a name is not ASCII, and utf8proc is not "
                  "built in: x");
}

// By whichever implementation is built in; see RFC 3720, B.4.
TEST(LeftOutTest, ChecksumsAreTheSame) {
  std::string bytes(32, '\0');
  EXPECT_EQ(Crc32c(bytes.data(), 32), 0x8A9136AAu);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(bytes.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(Crc32c("", 0), 0u);
  // In parts of all sizes, at all alignments.
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
  const uint32_t whole = Crc32c(text.data(), text.size());
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(text.data(), cut);
    EXPECT_EQ(Crc32cExtend(first, text.data() + cut, text.size() - cut), whole);
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    EXPECT_EQ(Crc32c(&c, 1), Crc32cOfByte(static_cast<uint8_t>(byte)));
  }
}

}  // namespace
}  // namespace varve
