// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/key_fold.h"

#include <utf8proc.h>

#include <algorithm>

#include "util/threads/path_counter.h"

namespace varve {

namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(
    UTF8PROC_CASEFOLD | UTF8PROC_COMPOSE | UTF8PROC_STABLE);

// Longer texts are folded in heap memory.
constexpr size_t kStackCharacters = 256;

// Calls use(bytes, size) with the folded text. Returns false as FoldUnicode.
template <typename Use>
bool WithUnicodeFolded(const Slice& text, Use use) {
  CountPath(PathCounter::kUnicodeFold);
  const auto* const bytes =
      reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  // One more: encoding in place appends a zero byte.
  utf8proc_int32_t stack[kStackCharacters + 1];
  std::unique_ptr<utf8proc_int32_t[]> heap;
  utf8proc_int32_t* characters = stack;
  utf8proc_ssize_t count =
      utf8proc_decompose(bytes, size, stack, kStackCharacters, kOptions);
  if (count > static_cast<utf8proc_ssize_t>(kStackCharacters)) {
    heap = std::make_unique_for_overwrite<utf8proc_int32_t[]>(
        static_cast<size_t>(count) + 1);
    characters = heap.get();
    count = utf8proc_decompose(bytes, size, characters, count, kOptions);
  }
  if (count < 0) return false;
  const utf8proc_ssize_t folded =
      utf8proc_reencode(characters, count, kOptions);
  if (folded < 0) return false;
  use(reinterpret_cast<const char*>(characters), static_cast<size_t>(folded));
  return true;
}

}  // namespace

bool FoldUnicode(const Slice& text, std::string* out) {
  return WithUnicodeFolded(
      text, [out](const char* data, size_t size) { out->assign(data, size); });
}

bool FoldText(const Slice& text, KeyFolding folding, std::string* out) {
  const FoldedKey folded(text, folding);
  if (!folded.ok()) return false;
  out->assign(folded.slice().data(), folded.slice().size());
  return true;
}

void FoldedKey::FoldElsewhere(const Slice& key, KeyFolding folding) {
  const auto reserve = [this](size_t size) {
    char* place = inline_;
    if (size > kInlineBytes) {
      heap_ = std::make_unique_for_overwrite<char[]>(size);
      place = heap_.get();
    }
    return place;
  };
  if (folding == KeyFolding::kAsciiFirst && key.size() > kInlineBytes) {
    char* const place = reserve(key.size());
    if (FoldAscii(key.data(), key.size(), place)) {
      data_ = place;
      size_ = key.size();
      return;
    }
  }
  WithUnicodeFolded(key, [&](const char* data, size_t size) {
    char* const place = reserve(size);
    memcpy(place, data, size);
    data_ = place;
    size_ = size;
  });
}

}  // namespace varve
