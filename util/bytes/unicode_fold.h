// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The part of case folding (util/bytes/key_fold.h) that uses utf8proc. A build
// without utf8proc has unicode_fold_left_out.cc, which folds only ASCII.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "varve/slice.h"

namespace varve {

// Returns true if characters outside ASCII can be folded.
bool UnicodeFoldingSupported();

// Folds one text and holds the result. An object has about 1 KiB, and is meant
// for the stack.
// Thread-safety: owned by one thread.
class UnicodeFolder {
 public:
  UnicodeFolder() = default;
  UnicodeFolder(const UnicodeFolder&) = delete;
  UnicodeFolder& operator=(const UnicodeFolder&) = delete;

  // Returns false if the text is not UTF-8 or too large to be folded, and
  // without utf8proc if it is not ASCII.
  bool Fold(const Slice& text);

  // Valid until the next Fold. REQUIRES: Fold returned true.
  Slice folded() const { return folded_; }

 private:
  // Longer texts are folded in heap memory.
  static constexpr size_t kStackCharacters = 256;

  Slice folded_;
  std::unique_ptr<int32_t[]> heap_;
  // One more: utf8proc appends a zero byte when it encodes in place.
  int32_t stack_[kStackCharacters + 1];
};

}  // namespace varve
