// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// In the place of unicode_fold.cc in a build without utf8proc.
#include "util/bytes/key_fold.h"
#include "util/bytes/unicode_fold.h"

namespace varve {

bool UnicodeFoldingSupported() { return false; }

bool UnicodeFolder::Fold(const Slice& text) {
  int32_t* place = stack_;
  if (text.size() > sizeof(stack_)) {
    heap_ = std::make_unique_for_overwrite<int32_t[]>(
        text.size() / sizeof(int32_t) + 1);
    place = heap_.get();
  }
  char* const out = reinterpret_cast<char*>(place);
  folded_ = Slice(out, text.size());
  return FoldAscii(text.data(), text.size(), out);
}

}  // namespace varve
