// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Case folding: two texts that differ only in case get the same bytes.
//
// The folded form of a text is Unicode's full case folding of each of its
// characters, in normalization form C. utf8proc_map with UTF8PROC_CASEFOLD,
// UTF8PROC_COMPOSE and UTF8PROC_STABLE gives the same bytes. So "STRASSE" and
// "straße" are equal, as are "É", "é" and "e" with a combining acute accent.
// "I" folds to "i" in every language. Folding is idempotent. Characters that
// the linked utf8proc does not know yet fold to themselves.
//
// ASCII is folded by SIMD where available. A text of only ASCII is in
// normalization form C, and is folded letter by letter. One test of all its
// bytes together finds whether there is a byte that is not ASCII. The whole
// text then goes through utf8proc, since a combining character acts on an ASCII
// letter before it.
//
// A build without utf8proc folds ASCII to the same bytes, and refuses any other
// text: it would otherwise store keys that a build with it does not find.
//
// Thread-safety: all functions are thread-safe.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

enum class KeyFolding : uint8_t {
  kNone,        // Keys are not folded.
  kAsciiFirst,  // As described above.
  kUnicode,     // All texts by utf8proc (ablation key_case=unicode).
};

namespace fold_internal {

inline constexpr uint64_t kOnes = 0x0101010101010101;
inline constexpr uint64_t kHighBits = 0x80 * kOnes;

// Folds eight bytes. The result is valid only if all are ASCII.
constexpr uint64_t FoldWord(uint64_t word) {
  // Bit 7 of a byte tells whether it is 'A' or later, and whether it is after
  // 'Z'. No sum carries into the next byte.
  const uint64_t from_a = word + (0x80 - 'A') * kOnes;
  const uint64_t behind_z = word + (0x80 - 'Z' - 1) * kOnes;
  return word | ((from_a ^ behind_z) & kHighBits) >> 2;
}

template <typename Word>
Word Load(const char* p) {
  Word word;
  memcpy(&word, p, sizeof(word));
  return word;
}
template <typename Word>
void Store(char* p, Word word) {
  memcpy(p, &word, sizeof(word));
}

// Folds sixteen bytes at a time. Seen() tells whether all so far were ASCII.
class BlockFolder {
 public:
#if defined(__SSE2__)
  void Fold(const char* from, char* to) {
    const __m128i block =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    seen_ = _mm_or_si128(seen_, block);
    // Signed: 'A' to 'Z' become the 26 largest numbers.
    const __m128i moved = _mm_add_epi8(block, _mm_set1_epi8(127 - 'Z'));
    const __m128i upper = _mm_cmpgt_epi8(moved, _mm_set1_epi8(127 - 26));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_or_si128(block, _mm_and_si128(upper, _mm_set1_epi8(0x20))));
  }
  bool all_ascii() const { return _mm_movemask_epi8(seen_) == 0; }

 private:
  __m128i seen_ = _mm_setzero_si128();
#else
  void Fold(const char* from, char* to) {
    const auto first = Load<uint64_t>(from);
    const auto second = Load<uint64_t>(from + 8);
    seen_ |= first | second;
    Store(to, FoldWord(first));
    Store(to + 8, FoldWord(second));
  }
  bool all_ascii() const { return (seen_ & kHighBits) == 0; }

 private:
  uint64_t seen_ = 0;
#endif
};

// Folds sizes from 0 to 15, in two halves that may overlap.
inline bool FoldShortAscii(const char* text, size_t size, char* out) {
  if (size >= 8) {
    const auto first = Load<uint64_t>(text);
    const auto last = Load<uint64_t>(text + size - 8);
    Store(out, FoldWord(first));
    Store(out + size - 8, FoldWord(last));
    return ((first | last) & kHighBits) == 0;
  }
  if (size >= 4) {
    const uint64_t both = Load<uint32_t>(text) |
                          static_cast<uint64_t>(Load<uint32_t>(text + size - 4))
                              << 32;
    const uint64_t folded = FoldWord(both);
    Store(out, static_cast<uint32_t>(folded));
    Store(out + size - 4, static_cast<uint32_t>(folded >> 32));
    return (both & kHighBits) == 0;
  }
  uint64_t seen = 0;
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    seen |= byte;
    out[i] = static_cast<char>(FoldWord(byte));
  }
  return (seen & kHighBits) == 0;
}

}  // namespace fold_internal

// Folds a text of ASCII into out[0, size). Returns false if there is a byte
// that is not ASCII. `out` then has no defined contents.
// REQUIRES: `out` does not overlap the text.
[[gnu::always_inline]] inline bool FoldAscii(const char* text, size_t size,
                                             char* out) {
  if (size < 16) return fold_internal::FoldShortAscii(text, size, out);
  fold_internal::BlockFolder folder;
  const size_t last = size - 16;
  for (size_t i = 0; i < last; i += 16) folder.Fold(text + i, out + i);
  // May overlap the block before.
  folder.Fold(text + last, out + last);
  return folder.all_ascii();
}

// Folds any text by utf8proc, including ASCII. Returns false if it is not UTF-8
// or too large to be folded, or not ASCII where utf8proc is not built in. *out
// is then unchanged.
bool FoldUnicode(const Slice& text, std::string* out);

// Returns the error of a text for which a function below or above returned
// false: InvalidArgument, or NotSupported where utf8proc is not built in. The
// message begins with `what`, such as "a key", and ends with the text if that
// is not empty.
[[gnu::cold]] Status UnfoldableText(const std::string& what, const Slice& text);

// Folds to *out. Returns false as FoldUnicode. REQUIRES: folding is not kNone.
bool FoldText(const Slice& text, KeyFolding folding, std::string* out);

// Holds the folded form of a key for the duration of a call. ASCII keys of up
// to kInlineBytes cost no allocation.
class FoldedKey {
 public:
  static constexpr size_t kInlineBytes = 128;

  // REQUIRES: folding is not kNone.
  FoldedKey(const Slice& key, KeyFolding folding) {
    if (key.size() <= kInlineBytes && folding == KeyFolding::kAsciiFirst &&
        FoldAscii(key.data(), key.size(), inline_)) [[likely]] {
      data_ = inline_;
      size_ = key.size();
      return;
    }
    FoldElsewhere(key, folding);
  }
  FoldedKey(const FoldedKey&) = delete;
  FoldedKey& operator=(const FoldedKey&) = delete;

  // Returns false if the key cannot be folded, as FoldUnicode.
  bool ok() const { return data_ != nullptr; }
  // Valid as long as *this. REQUIRES: ok().
  Slice slice() const { return Slice(data_, size_); }

 private:
  [[gnu::noinline]] void FoldElsewhere(const Slice& key, KeyFolding folding);

  const char* data_ = nullptr;
  size_t size_ = 0;
  std::unique_ptr<char[]> heap_;
  char inline_[kInlineBytes];
};

}  // namespace varve
