// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/unicode_fold.h"

#include <utf8proc.h>

namespace varve {

namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(
    UTF8PROC_CASEFOLD | UTF8PROC_COMPOSE | UTF8PROC_STABLE);

}  // namespace

bool UnicodeFoldingSupported() { return true; }

bool UnicodeFolder::Fold(const Slice& text) {
  const auto* const bytes =
      reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  utf8proc_int32_t* characters = stack_;
  utf8proc_ssize_t count =
      utf8proc_decompose(bytes, size, stack_, kStackCharacters, kOptions);
  if (count > static_cast<utf8proc_ssize_t>(kStackCharacters)) {
    heap_ = std::make_unique_for_overwrite<int32_t[]>(
        static_cast<size_t>(count) + 1);
    characters = heap_.get();
    count = utf8proc_decompose(bytes, size, characters, count, kOptions);
  }
  if (count < 0) return false;
  const utf8proc_ssize_t folded =
      utf8proc_reencode(characters, count, kOptions);
  if (folded < 0) return false;
  folded_ = Slice(reinterpret_cast<const char*>(characters),
                  static_cast<size_t>(folded));
  return true;
}

}  // namespace varve
