// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/block/block.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "table/block/block_memory.h"
#include "table/block/dead_walk.h"
#include "table/block/entry_scanner.h"
#include "table/block/format.h"
#include "util/bytes/hash.h"
#include "util/bytes/key_prefix.h"
#include "util/bytes/short_copy.h"
#include "util/threads/thread_scratch.h"

namespace varve {

namespace {

// Keys that share many bytes with the key before grow when they are decoded.
// They grow at most by a factor of the restart interval. The notes on each
// entry count too: a block of only the smallest entries takes ten times its
// size, and compresses to almost nothing. (The compression ratio proves
// nothing, since one large value can have the same.) Valid blocks stay below
// these bounds, and blocks that this engine writes stay far below. Other blocks
// must not use all memory.
constexpr size_t kMaxGrowth = 1024;
constexpr size_t kAlwaysAllowedBytes = size_t{64} << 20;
constexpr size_t kMaxGrownBytes = size_t{512} << 20;
static_assert(kMaxWrittenKeyBytes <= kAlwaysAllowedBytes);

// Returns the bound for keys and entries of a block of `block_size` bytes. A
// few entries that share nothing always fit.
size_t MaxDecodedBytes(size_t block_size) {
  return std::max(
      kAlwaysAllowedBytes + block_size,
      std::min(kAlwaysAllowedBytes + kMaxGrowth * block_size, kMaxGrownBytes));
}

// A block with more entries gets no fingerprints, which would not help.
constexpr size_t kMaxFingerprints = 1 << 15;

// Larger scratch memory is freed after use.
constexpr size_t kMaxKeptScratchBytes = 1 << 20;

// The decoded and checked entries of a block.
class DecodedEntries {
 public:
  struct Entry {
    size_t key_end;  // In keys_; it begins where the one before ends.
    Slice value;
  };

  Status Decode(const Slice& contents, const BlockBuildOptions& options);

  size_t size() const { return entries_.size(); }
  size_t prefix_size() const { return prefix_size_; }
  Slice Key(size_t i) const {
    const size_t begin = i == 0 ? 0 : entries_[i - 1].key_end;
    return Slice(keys_.data() + begin, entries_[i].key_end - begin);
  }
  const Slice& Value(size_t i) const { return entries_[i].value; }

  void Recycle() {
    prefix_size_ = 0;
    keys_size_ = 0;
    entries_.clear();
    if (keys_.size() > kMaxKeptScratchBytes) keys_ = std::vector<char>();
    if (entries_.capacity() * sizeof(Entry) > kMaxKeptScratchBytes) {
      entries_.shrink_to_fit();
    }
  }

 private:
  Status CheckRestarts(const Slice& contents, const BlockTail& tail,
                       const EntryScanner& entry, uint32_t* restart) const;

  // REQUIRES: the keys take no more than `max_bytes` with this one.
  void AppendKey(const Slice& key, size_t max_bytes) {
    if (key.size() > keys_.size() - keys_size_) {
      keys_.resize(std::min(2 * (keys_size_ + key.size()), max_bytes));
    }
    ShortCopy(keys_.data() + keys_size_, key.data(), key.size());
    keys_size_ += key.size();
  }

  std::vector<char> keys_;  // Internal keys, concatenated.
  size_t keys_size_ = 0;    // Bytes of keys_ in use.
  std::vector<Entry> entries_;
  size_t prefix_size_ = 0;
};

uint32_t RestartOffset(const Slice& contents, const BlockTail& tail,
                       uint32_t index) {
  return DecodeFixed32(contents.data() + tail.entries_size +
                       index * sizeof(uint32_t));
}

Status DecodedEntries::CheckRestarts(const Slice& contents,
                                     const BlockTail& tail,
                                     const EntryScanner& entry,
                                     uint32_t* restart) const {
  if (*restart < tail.restart_count &&
      RestartOffset(contents, tail, *restart) == entry.offset()) {
    if (entry.shared() != 0) {
      return entry.EntryError("shares bytes at a restart point");
    }
    ++*restart;
  } else if (*restart == 0) {
    return entry.EntryError("comes before all restart points");
  }
  return Status();
}

Status DecodedEntries::Decode(const Slice& contents,
                              const BlockBuildOptions& options) {
  BlockTail tail;
  Status s = DecodeBlockTail(contents, &tail);
  if (!s.ok()) return s;
  const size_t max_bytes = MaxDecodedBytes(contents.size());
  ByteBudget budget(max_bytes);
  EntryScanner entry(Slice(contents.data(), tail.entries_size));
  uint32_t restart = 0;
  while (entry.Next()) {
    const Slice key = entry.key();
    if (key.size() < kTrailerSize) {
      return entry.EntryError("the key has no trailer");
    }
    const auto type = static_cast<uint8_t>(ExtractTrailer(key));
    if (!IsLookupType(type)) [[unlikely]] {
      return LookupTypeError(type, entry.offset());
    }
    s = CheckRestarts(contents, tail, entry, &restart);
    if (!s.ok()) return s;
    if (!budget.Take(key.size() + sizeof(Entry))) {
      return entry.EntryError("the keys take too much memory");
    }
    const Slice user_key = ExtractUserKey(key);
    if (!options.bytewise || entries_.empty()) {
      prefix_size_ = options.bytewise ? user_key.size() : 0;
    } else if (entry.shared() >= prefix_size_) {
      // The key before begins with the prefix, and so does this one.
      prefix_size_ = std::min(prefix_size_, user_key.size());
    } else {
      const Slice first(keys_.data(), prefix_size_);
      prefix_size_ = CommonPrefixSize(first, user_key);
    }
    AppendKey(key, max_bytes);
    if (options.global_sequence != 0) {
      EncodeFixed64(keys_.data() + keys_size_ - kTrailerSize,
                    options.global_sequence << 8 | type);
    }
    entries_.push_back({keys_size_, entry.value()});
  }
  if (!entry.status().ok()) return entry.status();
  // An empty block has one restart point, at its end.
  if (entries_.empty() && tail.restart_count == 1 &&
      RestartOffset(contents, tail, 0) == 0) {
    return s;
  }
  if (restart != tail.restart_count) {
    return Status::Corruption(
        "restart point " + std::to_string(restart) + " of the block, offset " +
        std::to_string(RestartOffset(contents, tail, restart)) +
        ", is not the next entry of one");
  }
  return s;
}

}  // namespace

Status Block::Create(const Slice& contents, const BlockBuildOptions& options,
                     Block** block) {
  const ThreadScratch<DecodedEntries, Block> lent;
  DecodedEntries& entries = *lent;
  Status s = entries.Decode(contents, options);
  if (s.ok()) {
    const bool fingerprints =
        options.fingerprints && entries.size() <= kMaxFingerprints;
    const size_t groups = fingerprints ? (entries.size() + 15) / 16 : 0;
    const size_t prefix_size = entries.prefix_size();
    size_t body_size = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      const size_t rest = entries.Key(i).size() - kTrailerSize - prefix_size;
      const size_t value = entries.Value(i).size();
      body_size += VarintLength(rest) + VarintLength(value) + rest +
                   kTrailerSize + value;
    }
    const size_t samples_at = kFingerprintsAt + 16 * groups;
    const size_t offsets_at =
        samples_at + groups * kSamplesPerGroup * sizeof(uint32_t);
    const size_t fixed_size = offsets_at + prefix_size + body_size;
    const bool wide = fixed_size + 2 * entries.size() > UINT16_MAX;
    const size_t total =
        std::max(sizeof(Block), fixed_size + (wide ? 4 : 2) * entries.size());
    if (total > UINT32_MAX) {
      s = Status::NotSupported("data blocks of 4 GiB and more");
    } else {
      void* memory = AllocateBlockMemory(total, options.huge_pages);
      auto* made = new (memory) Block;
      made->allocated_bytes_ = total;
      made->account_ = NoteAllocated(MemoryKind::kBlock, total);
      made->entry_count_ = static_cast<uint32_t>(entries.size());
      made->prefix_size_ = static_cast<uint32_t>(prefix_size);
      made->offsets_at_ = static_cast<uint32_t>(offsets_at);
      made->wide_offsets_ = wide;
      made->huge_pages_ = options.huge_pages;
      made->has_fingerprints_ = fingerprints;
      made->fingerprint_groups_ = static_cast<uint16_t>(groups);

      char* const base = static_cast<char*>(memory);
      memset(base + kFingerprintsAt, 0, 16 * groups);
      // After the last entry: above all keys.
      memset(base + samples_at, 0xFF, offsets_at - samples_at);
      char* offset = base + offsets_at;
      char* p = offset + (wide ? 4 : 2) * entries.size();
      made->prefix_at_ = static_cast<uint32_t>(p - base);
      if (prefix_size > 0) memcpy(p, entries.Key(0).data(), prefix_size);
      p += prefix_size;
      for (size_t i = 0; i < entries.size(); ++i) {
        const Slice key = entries.Key(i);
        const Slice value = entries.Value(i);
        const auto at = static_cast<uint32_t>(p - base);
        if (wide) {
          EncodeFixed32(offset + 4 * i, at);
        } else {
          memcpy(offset + 2 * i, &at, 2);  // The low half comes first.
        }
        if (fingerprints) {
          base[kFingerprintsAt + i] =
              static_cast<char>(Fingerprint(PreviewXxh3(ExtractUserKey(key))));
        }
        const size_t rest = key.size() - prefix_size;
        if (fingerprints && i % kSampleStep == 0) {
          const uint32_t sample =
              SampleOf(Slice(key.data() + prefix_size, rest - kTrailerSize));
          memcpy(base + samples_at + i / kSampleStep * sizeof(sample), &sample,
                 sizeof(sample));
        }
        p = EncodeVarint32(p, static_cast<uint32_t>(rest - kTrailerSize));
        p = EncodeVarint32(p, static_cast<uint32_t>(value.size()));
        ShortCopy(p, key.data() + prefix_size, rest);
        p += rest;
        if (!value.empty()) memcpy(p, value.data(), value.size());
        p += value.size();
      }
      *block = made;
    }
  }
  entries.Recycle();
  return s;
}

void Block::Free() {
  const size_t size = allocated_bytes_;
  const bool huge_pages = huge_pages_;
  NoteFreed(account_, MemoryKind::kBlock, size);
  this->~Block();
  FreeBlockMemory(this, size, huge_pages);
}

[[gnu::flatten]] uint32_t Block::LowerBound(
    const InternalKeyComparator& comparator, const Slice& user_key,
    uint64_t trailer) const {
  return LowerBoundIn(Narrow(user_key), comparator, trailer);
}

Block::Range Block::Narrow(const Slice& user_key) const {
  Range range{user_key, 0, entry_count_};
  if (prefix_size_ > 0) {
    // In bytewise order the common prefix is compared once.
    const Slice prefix = Prefix();
    const size_t common = std::min(prefix.size(), user_key.size());
    const int r =
        common == 0 ? 0 : memcmp(user_key.data(), prefix.data(), common);
    if (r > 0) return {{}, entry_count_, entry_count_};
    if (r < 0 || common < prefix.size()) return {};
    range.rest.remove_prefix(prefix_size_);
  }
  if (has_fingerprints_) NarrowBySamples(&range);
  return range;
}

uint32_t Block::LowerBoundIn(const Range& range,
                             const InternalKeyComparator& comparator,
                             uint64_t trailer) const {
  uint32_t left = range.begin;
  uint32_t right = range.end;
  while (left < right) {
    const uint32_t middle = left + (right - left) / 2;
    const Entry entry = EntryAt(middle);
    const int r = comparator.CompareUser(entry.rest, range.rest);
    if (r < 0 || (r == 0 && entry.trailer > trailer)) {
      left = middle + 1;
    } else {
      right = middle;
    }
  }
  return left;
}

void Block::NarrowBySamples(Range* range) const {
  const uint32_t wanted = SampleOf(range->rest);
  const char* const samples =
      base() + kFingerprintsAt + 16 * size_t{fingerprint_groups_};
  const uint32_t count = (entry_count_ + kSampleStep - 1) / kSampleStep;
  // Entries with equal samples differ only in their keys.
  uint32_t below = 0;
  uint32_t not_above = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t sample;
    memcpy(&sample, samples + i * sizeof(sample), sizeof(sample));
    below += sample < wanted;
    not_above += sample <= wanted;
  }
  range->begin = below == 0 ? 0 : (below - 1) * kSampleStep + 1;
  range->end = std::min(not_above * kSampleStep, entry_count_);
  // Prefetches all entries that may be compared; most are neighbors.
  if (range->begin >= entry_count_) return;
  const char* const from = base() + Offset(range->begin);
  const char* const to =
      base() + Offset(std::min(range->end, entry_count_ - 1));
  for (size_t i = 0; i < kSeekPrefetchLines && from + 64 * i < to + 64; ++i) {
    __builtin_prefetch(from + 64 * i);
  }
}

void BlockIterator::Reset(const Block* block,
                          const InternalKeyComparator* comparator) {
  block_ = block;
  comparator_ = comparator;
  count_ = block->entry_count_;
  index_ = count_;
  position_.valid = false;
  prefix_size_ = block->prefix_size_;
  if (prefix_size_ > buffer_size_) Grow(prefix_size_);
  memcpy(buffer_, block->Prefix().data(), prefix_size_);
}

void BlockIterator::Grow(size_t size) {
  buffer_ = large_.Grow(std::max(size, 2 * buffer_size_), buffer_,
                        std::min(prefix_size_, buffer_size_));
  buffer_size_ = large_.capacity();
}

void BlockIterator::SeekForPrev(const Slice& internal_key) {
  Seek(internal_key);
  if (!Valid()) {
    SeekToLast();
  } else if (comparator_->Compare(key(), internal_key) > 0) {
    Prev();
  }
}

int BlockIterator::SplitAtPrefix(const Slice& user_key, Slice* rest) const {
  *rest = user_key;
  if (prefix_size_ == 0) return 0;
  const size_t common = std::min(prefix_size_, user_key.size());
  const int r = common == 0 ? 0 : memcmp(user_key.data(), buffer_, common);
  if (r != 0) return r;
  if (common < prefix_size_) return -1;
  rest->remove_prefix(prefix_size_);
  return 0;
}

namespace {

// Walks over dead entries prefetch the entry this far ahead. Long values are
// not touched, so that entries are not on consecutive cache lines.
constexpr uint32_t kSkipsAhead = 8;

// A bound in one block: a bound on what follows the block's prefix in keys.
struct BoundInBlock {
  bool none = true;  // The bound does not stop the walk in this block.
  bool all = false;  // The bound comes before all entries in walking order.
  Slice rest;
  uint64_t trailer = 0;

  // Returns the order of an entry relative to the bound.
  int Compare(const InternalKeyComparator& comparator,
              const Block::Entry& entry) const {
    const int r = comparator.CompareUser(entry.rest, rest);
    if (r != 0) return r;
    return entry.trailer > trailer ? -1 : (entry.trailer < trailer ? 1 : 0);
  }
};

}  // namespace

void BlockIterator::SkipDeadForward(DeadWalk* walk) {
  const InternalKeyComparator& comparator = *comparator_;
  BoundInBlock bound;
  if (walk->bound() != nullptr) {
    const int order =
        SplitAtPrefix(ExtractUserKey(*walk->bound()), &bound.rest);
    bound.none = order > 0;
    bound.all = order < 0;
    bound.trailer = ExtractTrailer(*walk->bound());
  }
  Slice hidden;
  bool hides = SplitAtPrefix(walk->hidden(), &hidden) == 0;
  const uint32_t from = index_;
  uint32_t i = from;
  uint32_t deletions = 0;
  size_t versions = 0;
  // Entries before this index are before the bound.
  uint32_t checked = 0;
  const char* p = block_->base() + block_->Offset(i);
  for (; i < count_; ++i) {
    const Block::Entry entry = Block::Decode(p);
    if (walk->IsVisibleDeletion(entry.trailer)) {
      if (!bound.none && i >= checked) {
        if (bound.all || bound.Compare(comparator, entry) >= 0) break;
        constexpr uint32_t kStride = 16;
        const uint32_t far = std::min(i + kStride, count_ - 1);
        if (i - from >= 4 &&
            bound.Compare(comparator, block_->EntryAt(far)) < 0) {
          checked = far + 1;
        }
      }
      hidden = entry.rest;
      hides = true;
      versions = 0;
      ++deletions;
    } else if (!hides || !walk->IsSameKey(entry.rest, hidden)) {
      break;
    } else if (++versions > DeadWalk::kMaxVersions) {
      walk->StopInManyVersions();
      break;
    }
    p = entry.value.end();
    if (i + kSkipsAhead < count_) {
      __builtin_prefetch(block_->base() + block_->Offset(i + kSkipsAhead));
    }
  }
  if (i == from) return;
  walk->CountPassed(i - from, deletions);
  if (deletions > 0) {
    const size_t size = prefix_size_ + hidden.size();
    if (size > buffer_size_) Grow(size);
    ShortCopy(buffer_ + prefix_size_, hidden.data(), hidden.size());
    walk->Hide(Slice(buffer_, size));
  }
  MoveTo(i, p);
}

void BlockIterator::SkipHidden(const DeletionBatch& deletions, DeadWalk* walk) {
  // Deletions whose user keys have the block's prefix: they are consecutive.
  size_t d = 0;
  size_t end = deletions.size();
  Slice rest;
  while (d < end && SplitAtPrefix(ExtractUserKey(deletions[d]), &rest) != 0) {
    ++d;
  }
  while (d < end &&
         SplitAtPrefix(ExtractUserKey(deletions[end - 1]), &rest) != 0) {
    --end;
  }
  if (d == end) return;
  const auto hidden = [&](size_t deletion) {
    Slice key = ExtractUserKey(deletions[deletion]);
    // Shorter only if the keys of a file are out of order.
    key.remove_prefix(std::min(prefix_size_, key.size()));
    return key;
  };
  const uint32_t from = index_;
  uint32_t i = from;
  const char* p = block_->base() + block_->Offset(i);
  while (i < count_) {
    const Block::Entry entry = Block::Decode(p);
    // Mostly the entry is the next deletion's. Otherwise the order decides.
    while (!walk->IsSameKey(entry.rest, hidden(d))) {
      if (d + 1 < end && walk->IsSameKey(entry.rest, hidden(d + 1))) {
        ++d;
        break;
      }
      if (comparator_->CompareUser(entry.rest, hidden(d)) < 0 || ++d == end) {
        d = end;
        break;
      }
    }
    if (d == end || entry.trailer >= ExtractTrailer(deletions[d])) break;
    p = entry.value.end();
    ++i;
    if (i + kSkipsAhead < count_) {
      __builtin_prefetch(block_->base() + block_->Offset(i + kSkipsAhead));
    }
  }
  if (i == from) return;
  walk->CountPassed(i - from, 0);
  MoveTo(i, p);
}

void BlockIterator::CollectDeletions(const DeadWalk& walk,
                                     DeletionBatch* deletions) const {
  if (index_ >= count_) return;
  const Slice prefix(buffer_, prefix_size_);
  const char* p = block_->base() + block_->Offset(index_);
  for (uint32_t i = index_; i < count_; ++i) {
    const Block::Entry entry = Block::Decode(p);
    if (!walk.IsVisibleDeletion(entry.trailer)) break;
    const Slice rest(entry.rest.data(), entry.rest.size() + kTrailerSize);
    if (!deletions->AddCopy(prefix, rest)) break;
    p = entry.value.end();
  }
}

void BlockIterator::SkipDeadBackward(DeadWalk* walk) {
  const InternalKeyComparator& comparator = *comparator_;
  BoundInBlock bound;
  if (walk->bound() != nullptr) {
    const int order =
        SplitAtPrefix(ExtractUserKey(*walk->bound()), &bound.rest);
    if (order > 0) return;
    bound.none = order < 0;
    bound.trailer = ExtractTrailer(*walk->bound());
  }
  uint32_t left = index_ + 1;  // Entries not passed.
  const uint32_t from = left;
  uint32_t deletions = 0;
  while (left > 0) {
    const Block::Entry entry = block_->EntryAt(left - 1);
    // The newest version that hides the entry, or the entry.
    uint32_t hiding = left - 1;
    bool dead = walk->IsVisibleDeletion(entry.trailer);
    while (!dead && hiding > 0 && left - hiding <= DeadWalk::kMaxVersions) {
      const Block::Entry newer = block_->EntryAt(--hiding);
      if (!walk->IsSameKey(newer.rest, entry.rest)) break;
      dead = walk->IsVisibleDeletion(newer.trailer);
    }
    if (!dead) break;
    if (!bound.none &&
        bound.Compare(comparator, block_->EntryAt(hiding)) <= 0) {
      break;
    }
    left = hiding;
    ++deletions;
  }
  if (left == from) return;
  walk->CountPassed(from - left, deletions);
  LoadAt(left == 0 ? count_ : left - 1);
}

}  // namespace varve
