// Varve: a key-value storage engine. MIT licence, see LICENSE.
// Tags: optimized
//
// Goal: folding gives what utf8proc's own function gives, byte for byte, in
// either mode, refuses what that refuses, and folds nothing twice. Method:
// every code point alone and between letters, a million random strings, every
// short size at every value, each byte of which is outside of ASCII once.
#include "util/bytes/key_fold.h"

#include <utf8proc.h>

#include "test/testing/seed.h"
#include "test/testing/test_headers.h"
#include "util/threads/path_counter.h"

namespace varve::test {
namespace {

constexpr int32_t kMaxCodePoint = 0x10FFFF;

// Returns utf8proc's result, or nothing if the text is not UTF-8.
std::optional<std::string> Reference(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(
                       UTF8PROC_CASEFOLD | UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  std::optional<std::string> result;
  if (size >= 0) {
    result.emplace(reinterpret_cast<char*>(out), static_cast<size_t>(size));
  }
  free(out);
  return result;
}

std::optional<std::string> Fold(const std::string& text,
                                KeyFolding folding = KeyFolding::kAsciiFirst) {
  std::string out;
  if (!FoldText(text, folding, &out)) return std::nullopt;
  return out;
}

// The usual encoding, of surrogates too.
std::string Encode(int32_t code_point) {
  const auto c = static_cast<uint32_t>(code_point);
  std::string text;
  const auto add = [&text](uint32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 63));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 63));
    add(0x80 | (c & 63));
  } else {
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 63));
    add(0x80 | (c >> 6 & 63));
    add(0x80 | (c & 63));
  }
  return text;
}

// Both modes, against the reference, and folded once more.
void ExpectAsReference(const std::string& text) {
  const auto expected = Reference(text);
  const auto folded = Fold(text);
  ASSERT_EQ(folded, expected) << Slice(text).ToString(true);
  ASSERT_EQ(Fold(text, KeyFolding::kUnicode), expected);
  if (expected) {
    ASSERT_EQ(Fold(*expected), expected) << Slice(text).ToString(true);
  }
}

TEST(KeyFoldTest, FoldsEveryCodePointAsUtf8proc) {
  for (int32_t c = 0; c <= kMaxCodePoint; ++c) {
    const std::string text = Encode(c);
    ExpectAsReference(text);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(Fold(text).has_value(), !surrogate) << c;
    // Its effect on its ASCII neighbors.
    ExpectAsReference("A" + text + "I");
    if (HasFatalFailure()) return;
  }
  EXPECT_FALSE(Fold(Encode(kMaxCodePoint + 1)).has_value());
}

// Returns ASCII, combining characters, any characters, or invalid text.
std::string RandomText(Rng* rng) {
  std::string text;
  const uint64_t kind = rng->Below(5);
  const size_t count = rng->OneIn(50) ? rng->Below(400) : rng->Below(24);
  for (size_t i = 0; i < count; ++i) {
    switch (kind) {
      case 0:
        text.push_back(static_cast<char>(rng->Below(128)));
        break;
      case 1:
        text += rng->OneIn(3) ? Encode(rng->Between(0x300, 0x36F))
                              : Encode(rng->Between('@', 'z'));
        break;
      case 2:
        text += Encode(rng->Between(0xC0, 0x2FFF));
        break;
      case 3:
        text += Encode(rng->Between(0, kMaxCodePoint));
        break;
      default:
        text += rng->OneIn(30) ? std::string(1, static_cast<char>(rng->Next()))
                               : Encode(rng->Between(1, 0x7FF));
    }
  }
  return text;
}

TEST(KeyFoldTest, FoldsAMillionRandomStringsAsUtf8proc) {
  Rng rng(TestSeed());
  int refused = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string text = RandomText(&rng);
    const auto expected = Reference(text);
    const auto folded = Fold(text);
    ASSERT_EQ(folded, expected) << Slice(text).ToString(true);
    if (!expected) ++refused;
    if (i % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectAsReference(text));
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(KeyFoldTest, FoldsAsciiOfEverySize) {
  for (size_t size = 0; size < 300; ++size) {
    // A buffer of exactly that size, for the sanitizers.
    std::vector<char> text(size);
    std::vector<char> out(size);
    for (int c = 0; c < 128; ++c) {
      for (size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>((static_cast<size_t>(c) + i) % 128);
      }
      ASSERT_TRUE(FoldAscii(text.data(), size, out.data()));
      for (size_t i = 0; i < size; ++i) {
        const char lower = text[i] >= 'A' && text[i] <= 'Z'
                               ? static_cast<char>(text[i] + 32)
                               : text[i];
        ASSERT_EQ(out[i], lower) << "byte " << i << " of " << size;
      }
    }
    for (size_t i = 0; i < size; ++i) {
      const char kept = text[i];
      for (const int byte : {0x80, 0xC3, 0xFF}) {
        text[i] = static_cast<char>(byte);
        ASSERT_FALSE(FoldAscii(text.data(), size, out.data()))
            << "byte " << i << " of " << size;
      }
      text[i] = kept;
    }
  }
}

TEST(KeyFoldTest, FoldsWordsAsBlocks) {
  // The fallback without SIMD.
  for (int c = 0; c < 128; ++c) {
    for (int shift = 0; shift < 64; shift += 8) {
      const uint64_t word = static_cast<uint64_t>(c) << shift;
      const int lower = c >= 'A' && c <= 'Z' ? c + 32 : c;
      EXPECT_EQ(fold_internal::FoldWord(word), static_cast<uint64_t>(lower)
                                                   << shift);
    }
  }
}

TEST(KeyFoldTest, ComposesAcrossTheEndOfAscii) {
  const std::string acute = Encode(0x301);
  EXPECT_EQ(Fold("CAFE" + acute), Fold("caf" + Encode(0xC9)));
  EXPECT_EQ(Fold("0123456789ABCDEE" + acute), "0123456789abcde" + Encode(0xE9));
  EXPECT_EQ(Fold("STRASSE"), Fold("stra" + Encode(0xDF) + "e"));
  // The sign of Kelvin is ASCII once it is folded.
  EXPECT_EQ(Fold(Encode(0x212A)), "k");
}

TEST(KeyFoldTest, RefusesInvalidUtf8) {
  for (const char* text :
       {"\x80", "a\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
        "0123456789abcdef\xE2\x82", "\xE0\x80\x80"}) {
    EXPECT_FALSE(Fold(text).has_value()) << Slice(text).ToString(true);
    EXPECT_FALSE(Fold(text, KeyFolding::kUnicode).has_value());
  }
}

TEST(KeyFoldTest, AKeyOfAsciiStaysInPlaceAndSeesNoUnicode) {
  const uint64_t before = PathCount(PathCounter::kUnicodeFold);
  for (size_t size = 0; size <= 4 * FoldedKey::kInlineBytes; ++size) {
    const std::string text(size, 'K');
    const FoldedKey folded(text, KeyFolding::kAsciiFirst);
    ASSERT_TRUE(folded.ok());
    EXPECT_EQ(folded.slice(), Slice(std::string(size, 'k')));
    const auto* const place = folded.slice().data();
    const auto* const self = reinterpret_cast<const char*>(&folded);
    EXPECT_EQ(place >= self && place < self + sizeof(folded),
              size <= FoldedKey::kInlineBytes)
        << size;
  }
  EXPECT_EQ(PathCount(PathCounter::kUnicodeFold), before);
  std::string text(1000, 'K');
  text += Encode(0xC9);
  const FoldedKey folded(text, KeyFolding::kAsciiFirst);
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(folded.slice(), Slice(*Reference(text)));
  EXPECT_EQ(PathCount(PathCounter::kUnicodeFold), before + 1);
}

}  // namespace
}  // namespace varve::test
