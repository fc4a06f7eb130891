// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/prefix/prefix_order.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "db/memtable/blink_tree.h"
#include "db/memtable/memtable_iterator.h"
#include "util/bytes/arena.h"
#include "util/bytes/hash.h"
#include "util/threads/path_counter.h"
#include "varve/slice_transform.h"

namespace varve {

namespace {

// A Bloom filter whose bits of one hash are in one line of the processor's
// cache. Bits are only set.
//
// Thread-safety: any threads may call Add and MayHave concurrently. A writer
// adds the hash before its sequence number is published. A reader asks after it
// has loaded its own sequence number, so it sees the bits of all entries that
// it may see.
class ConcurrentBloom {
 public:
  ConcurrentBloom(size_t bytes, Arena* arena)
      : line_count_(std::clamp<size_t>(bytes / kLineBytes, 1, UINT32_MAX)) {
    char* const memory =
        arena->AllocateAligned(line_count_ * kLineBytes, kLineBytes);
    words_ = new (memory) Word[line_count_ * kWordsInLine]();
  }

  void Add(uint64_t hash) {
    Visit(hash, [](Word* word, uint64_t bit) {
      // relaxed, both: the sequence number publishes the bits. A bit that is
      // set is not stored again, so that the line stays clean.
      if ((word->load(std::memory_order_relaxed) & bit) == 0) {
        word->fetch_or(bit, std::memory_order_relaxed);
      }
      return true;
    });
  }
  bool MayHave(uint64_t hash) const {
    return Visit(hash, [](const Word* word, uint64_t bit) {
      // relaxed: see above.
      return (word->load(std::memory_order_relaxed) & bit) != 0;
    });
  }

 private:
  using Word = std::atomic<uint64_t>;
  static constexpr size_t kLineBytes = 64;
  static constexpr size_t kWordsInLine = kLineBytes / sizeof(Word);
  static constexpr int kProbes = 6;

  // Calls visit(word, bit) for the hash's bits, until it returns false.
  template <typename VisitBit>
  bool Visit(uint64_t hash, VisitBit visit) const {
    Word* const line =
        words_ + ((hash & UINT32_MAX) * line_count_ >> 32) * kWordsInLine;
    auto x = static_cast<uint32_t>(hash >> 32);
    for (int i = 0; i < kProbes; ++i, x *= 0x9E3779B9) {
      if (!visit(line + (x >> 29), uint64_t{1} << (x >> 23 & 63))) return false;
    }
    return true;
  }

  const uint64_t line_count_;
  Word* words_;
};

class PrefixOrder final : public MemTableOrder {
 public:
  PrefixOrder(const InternalKeyComparator* comparator,
              std::shared_ptr<const SliceTransform> extractor,
              size_t filter_bytes, Arena* entries, Arena* nodes)
      : comparator_(comparator),
        extractor_(std::move(extractor)),
        tree_(comparator, entries, nodes),
        filter_(filter_bytes, entries) {
    CountPath(PathCounter::kBlinkTree);
  }

  ArenaPlace AllocateEntry(size_t size) override {
    return tree_.AllocateEntry(size);
  }
  void Insert(const ArenaPlace& entry, const Slice& key) override {
    const Slice user_key = ExtractUserKey(key);
    if (extractor_->InDomain(user_key)) {
      filter_.Add(PreviewXxh3(extractor_->Transform(user_key)));
    }
    if (IsDeletion(ExtractValueType(key))) {
      // Its mark follows its value, and is not set yet.
      char* const mark = const_cast<char*>(EntryValue(key).end());
      tree_.InsertDeletion(entry, key, mark);
    } else {
      tree_.Insert(entry, key);
    }
  }
  const char* LowerBound(const Slice& internal_key) const override {
    return tree_.LowerBound(internal_key);
  }
  std::unique_ptr<InternalIterator> NewIterator(
      ThreadArena* memory) const override {
    return std::unique_ptr<InternalIterator>(
        new (memory) MemTableIterator<BlinkTree>(comparator_, &tree_));
  }
  bool MayHavePrefix(const SliceTransform& extractor,
                     uint64_t hash) const override {
    return (extractor_.get() != &extractor &&
            strcmp(extractor_->Name(), extractor.Name()) != 0) ||
           filter_.MayHave(hash);
  }

 private:
  const InternalKeyComparator* const comparator_;
  const std::shared_ptr<const SliceTransform> extractor_;
  BlinkTree tree_;
  ConcurrentBloom filter_;
};

}  // namespace

std::function<NewMemTableOrder> MemTableOrderFor(const Options& options) {
  NewMemTableOrder* const baseline = MemTableOrderOf(options);
  if (baseline != nullptr) return baseline;
  if (options.prefix_extractor == nullptr ||
      !(options.memtable_prefix_bloom_size_ratio > 0)) {
    return nullptr;
  }
  return [&options](const InternalKeyComparator* comparator, Arena* entries,
                    Arena* nodes) -> std::unique_ptr<MemTableOrder> {
    const auto bytes =
        static_cast<size_t>(static_cast<double>(options.write_buffer_size) *
                            options.memtable_prefix_bloom_size_ratio);
    return std::make_unique<PrefixOrder>(comparator, options.prefix_extractor,
                                         bytes, entries, nodes);
  };
}

}  // namespace varve
