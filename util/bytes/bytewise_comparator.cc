// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include <algorithm>
#include <string>

#include "util/base/process_wide.h"
#include "varve/comparator.h"

namespace varve {

namespace {

unsigned char ByteAt(const Slice& s, size_t i) {
  return static_cast<unsigned char>(s[i]);
}

// Adds one to the first byte at or after `from` that is below 0xFF, and
// truncates the key after it. A key with only 0xFF from there on stays
// unchanged.
void BumpAndCut(std::string* key, size_t from) {
  for (size_t i = from; i < key->size(); ++i) {
    const unsigned char byte = ByteAt(*key, i);
    if (byte == 0xFF) continue;
    (*key)[i] = static_cast<char>(byte + 1);
    key->resize(i + 1);
    return;
  }
}

class BytewiseComparatorImpl : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    return a.compare(b);
  }

  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  void FindShortestSeparator(std::string* start,
                             const Slice& limit) const override {
    const size_t common_limit = std::min(start->size(), limit.size());
    size_t common = 0;
    while (common < common_limit && (*start)[common] == limit[common]) {
      ++common;
    }
    // One is a prefix of the other, or they are not in order.
    if (common == common_limit) return;
    const unsigned char start_byte = ByteAt(*start, common);
    const unsigned char limit_byte = ByteAt(limit, common);
    if (start_byte >= limit_byte) return;

    if (start_byte + 1 < limit_byte || common + 1 < limit.size()) {
      (*start)[common] = static_cast<char>(start_byte + 1);
      start->resize(common + 1);
      return;
    }
    // start_byte + 1 would be the limit itself. Keep the byte, so that any
    // bytes after it stay below the limit.
    BumpAndCut(start, common + 1);
  }

  void FindShortSuccessor(std::string* key) const override {
    BumpAndCut(key, 0);
  }
};

class ReverseBytewiseComparatorImpl : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    return b.compare(a);
  }

  const char* Name() const override {
    return "rocksdb.ReverseBytewiseComparator";
  }

  // The first byte in which *start differs from the limit, or which only *start
  // has, keeps it before the limit. A prefix comes after the key itself.
  void FindShortestSeparator(std::string* start,
                             const Slice& limit) const override {
    if (Slice(*start).compare(limit) <= 0) return;  // They are not in order.
    size_t common = 0;
    while (common < limit.size() && (*start)[common] == limit[common]) {
      ++common;
    }
    if (common + 1 < start->size()) start->resize(common + 1);
  }

  // The prefixes of a key come after it. The shortest is empty.
  void FindShortSuccessor(std::string*) const override {}
};

}  // namespace

const Comparator* BytewiseComparator() {
  // Never destroyed, so it outlives every static object.
  static constinit ProcessWide<BytewiseComparatorImpl> comparator;
  return &comparator.Get();
}

const Comparator* ReverseBytewiseComparator() {
  static constinit ProcessWide<ReverseBytewiseComparatorImpl> comparator;
  return &comparator.Get();
}

}  // namespace varve
