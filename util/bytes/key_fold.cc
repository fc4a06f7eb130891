// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/key_fold.h"

#include <algorithm>

#include "util/bytes/unicode_fold.h"
#include "util/threads/path_counter.h"

namespace varve {

bool FoldUnicode(const Slice& text, std::string* out) {
  CountPath(PathCounter::kUnicodeFold);
  UnicodeFolder folder;
  if (!folder.Fold(text)) return false;
  out->assign(folder.folded().data(), folder.folded().size());
  return true;
}

Status UnfoldableText(const std::string& what, const Slice& text) {
  if (UnicodeFoldingSupported()) {
    return Status::InvalidArgument(what + " is not UTF-8", text);
  }
  return Status::NotSupported(
      what + " is not ASCII, and utf8proc is not built in", text);
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
  CountPath(PathCounter::kUnicodeFold);
  UnicodeFolder folder;
  if (!folder.Fold(key)) return;
  const Slice folded = folder.folded();
  char* const place = reserve(folded.size());
  memcpy(place, folded.data(), folded.size());
  data_ = place;
  size_ = folded.size();
}

}  // namespace varve
