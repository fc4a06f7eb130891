// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/memtable.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "db/memtable/memtable_iterator.h"
#include "db/memtable/write_buffer_budget.h"
#include "table/reader/merge_operands.h"
#include "util/bytes/coding.h"
#include "util/bytes/hash.h"
#include "util/threads/path_counter.h"

namespace varve {

namespace {

// Returns the result for a key that has no update, or only a range deletion.
LookupState AnswerWithout(SequenceNumber cover) {
  return cover == 0 ? LookupState::kNotFound : LookupState::kDeleted;
}

// Returns a block size at which one block does not fill a small write buffer.
size_t ArenaBlockBytes(size_t write_buffer_size) {
  return std::min(write_buffer_size / 8, Arena::kDefaultBlockBytes);
}
size_t NodeArenaBlockBytes(size_t write_buffer_size) {
  return std::min(write_buffer_size / 32, Arena::kDefaultBlockBytes);
}

// Returns the result if an entry that is no value, or that a range deletion
// covers, is the newest visible update of its user key.
[[gnu::noinline]] LookupState AnswerOther(uint64_t trailer,
                                          SequenceNumber cover) {
  const bool is_operand =
      static_cast<ValueType>(trailer & 0xFF) == ValueType::kMerge;
  return is_operand && trailer >> 8 >= cover ? LookupState::kMerge
                                             : LookupState::kDeleted;
}

// Returns the result if this is the newest visible update of its user key.
// `cover` is the sequence number of the range deletion that covers the key.
inline LookupState Answer(const Slice& entry_key, SequenceNumber cover,
                          Slice* value) {
  if (ExtractValueType(entry_key) != ValueType::kValue ||
      ExtractSequence(entry_key) < cover) {
    return AnswerOther(ExtractTrailer(entry_key), cover);
  }
  *value = EntryValue(entry_key);
  return LookupState::kFound;
}

}  // namespace

Slice LongEntryPart(const char* part) {
  uint32_t length = 0;
  const char* data = GetVarint32Ptr(part, part + kMaxVarint32Bytes, &length);
  return Slice(data, length);
}

// Thread-safety: thread-safe.
class MemTable::Counter final : public ArenaObserver {
 public:
  Counter(const MemTable* memtable, std::shared_ptr<WriteBufferAccount> account)
      : memtable_(memtable), charge_(std::move(account)) {}

  void OnGrowth() override {
    charge_.Update(memtable_->ApproximateMemoryUsage());
  }
  WriteBufferCharge& charge() { return charge_; }

 private:
  const MemTable* const memtable_;
  WriteBufferCharge charge_;
};

// The sizes that follow from the expected size of a memtable.
struct MemTable::Sizes {
  // `expected_bytes` may be less than `write_buffer_size`.
  Sizes(size_t write_buffer_size, size_t expected_bytes)
      : block_bytes(ArenaBlockBytes(write_buffer_size)),
        node_block_bytes(NodeArenaBlockBytes(write_buffer_size)),
        first_block_bytes(ArenaBlockBytes(expected_bytes)),
        first_node_block_bytes(NodeArenaBlockBytes(expected_bytes)),
        bucket_count(PointIndex::BucketCountFor(expected_bytes)) {}

  size_t block_bytes;
  size_t node_block_bytes;
  size_t first_block_bytes;
  size_t first_node_block_bytes;
  size_t bucket_count;
};

MemTable::MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
                   size_t write_buffer_size,
                   const std::function<NewMemTableOrder>& new_order,
                   const std::shared_ptr<WriteBufferAccount>& account,
                   size_t expected_bytes)
    : MemTable(comparator, wal_number,
               Sizes(write_buffer_size,
                     std::min({write_buffer_size, expected_bytes,
                               account == nullptr ? SIZE_MAX
                                                  : account->ExpectedBytes(
                                                        write_buffer_size)})),
               new_order,
               account == nullptr ? nullptr
                                  : std::make_unique<Counter>(this, account)) {}

MemTable::MemTable(const InternalKeyComparator* comparator, uint64_t wal_number,
                   const Sizes& sizes,
                   const std::function<NewMemTableOrder>& new_order,
                   std::unique_ptr<Counter> counter)
    : counter_(std::move(counter)),
      comparator_(comparator),
      wal_number_(wal_number),
      arena_(sizes.block_bytes, MemoryKind::kMemTable,
             {.first_block_bytes = sizes.first_block_bytes,
              .observer = counter_.get()}),
      node_arena_(sizes.node_block_bytes, MemoryKind::kMemTable,
                  {.first_block_bytes = sizes.first_node_block_bytes,
                   .observer = counter_.get()}),
      // Another comparator may consider different bytes equal.
      index_(comparator->bytewise() ? sizes.bucket_count : 0, &arena_,
             &entry_count_),
      tombstones_(comparator) {
  if (new_order == nullptr) {
    tree_.emplace(comparator, &arena_, &node_arena_);
    CountPath(PathCounter::kBlinkTree);
  } else {
    other_order_ = new_order(comparator, &arena_, &node_arena_);
  }
}

MemTable::~MemTable() = default;

void MemTable::MarkImmutable() {
  if (counter_ == nullptr) return;
  counter_->OnGrowth();
  counter_->charge().MarkImmutable();
}

void MemTable::MarkHeld() {
  if (counter_ != nullptr) counter_->charge().MarkHeld();
}

struct MemTable::NewEntry {
  ArenaPlace entry;
  Slice key;   // The internal key.
  char* mark;  // Of a deletion.
};

template <bool kDeletion>
[[gnu::always_inline]] inline MemTable::NewEntry MemTable::Encode(
    SequenceNumber sequence, ValueType type, const Slice& user_key,
    const Slice& value) {
  const size_t key_size = user_key.size() + kTrailerSize;
  const size_t size = VarintLength(key_size) + key_size +
                      VarintLength(value.size()) + value.size() +
                      (kDeletion ? kDeletionMarkBytes : 0);
  const ArenaPlace entry =
      tree_ ? tree_->AllocateEntry(size) : other_order_->AllocateEntry(size);
  char* p = EncodeVarint32(entry.data, static_cast<uint32_t>(key_size));
  const Slice key(p, key_size);
  if (!user_key.empty()) memcpy(p, user_key.data(), user_key.size());
  p += user_key.size();
  EncodeFixed64(p, PackTrailer(sequence, type));
  p = EncodeVarint32(p + kTrailerSize, static_cast<uint32_t>(value.size()));
  if (!value.empty()) memcpy(p, value.data(), value.size());
  if constexpr (kDeletion) p[value.size()] = 0;
  return {entry, key, p + value.size()};
}

template <bool kDeletion>
[[gnu::always_inline]] inline void MemTable::AddPoint(SequenceNumber sequence,
                                                      ValueType type,
                                                      const Slice& user_key,
                                                      const Slice& value,
                                                      uint64_t hash) {
  // While the structure is searched.
  index_.PrefetchForInsert(hash);
  const auto [entry, key, mark] =
      Encode<kDeletion>(sequence, type, user_key, value);
  if (!tree_) {
    other_order_->Insert(entry, key);
  } else if constexpr (kDeletion) {
    tree_->InsertDeletion(entry, key, mark);
  } else {
    tree_->Insert(entry, key);
  }
  index_.Insert(entry, key, hash);
  // relaxed: statistics.
  entry_count_.fetch_add(1, std::memory_order_relaxed);
}

void MemTable::AddMany(const Update* updates, size_t count) {
  VARVE_DCHECK(count > 0 && count <= kMaxUpdates);
  struct Added {
    MemTable* memtable;
    uint64_t hash;
  };
  BlinkTree::Insertion insertions[kMaxUpdates];
  Added added[kMaxUpdates];
  size_t size = 0;
  for (const auto& [memtable, sequence, type, key, value] :
       std::span(updates, count)) {
    VARVE_DCHECK(type != ValueType::kRangeDeletion);
    // relaxed, both: see NeverAdded. Stored once, so that the line stays clean.
    if (memtable->never_added_.load(std::memory_order_relaxed)) {
      memtable->never_added_.store(false, std::memory_order_relaxed);
    }
    if (!memtable->tree_) {
      memtable->Add(sequence, type, key, value);
      continue;
    }
    const uint64_t hash = PreviewXxh3(key);
    memtable->index_.PrefetchForInsert(hash);
    const bool is_deletion = IsDeletion(type);
    const NewEntry made =
        is_deletion ? memtable->Encode<true>(sequence, type, key, value)
                    : memtable->Encode<false>(sequence, type, key, value);
    added[size] = {memtable, hash};
    insertions[size++] = {&*memtable->tree_, made.entry, made.key,
                          is_deletion ? made.mark : nullptr};
  }
  if (size == 0) return;
  BlinkTree::InsertMany(insertions, size);
  uint64_t entries = 0;
  uint64_t deletions = 0;
  for (size_t i = 0; i < size; ++i) {
    const auto& [memtable, hash] = added[i];
    memtable->index_.Insert(insertions[i].entry, insertions[i].key, hash);
    ++entries;
    deletions += insertions[i].mark != nullptr ? 1 : 0;
    if (i + 1 < size && added[i + 1].memtable == memtable) continue;
    // relaxed, both: statistics.
    memtable->entry_count_.fetch_add(entries, std::memory_order_relaxed);
    if (deletions > 0) {
      memtable->deletion_count_.fetch_add(deletions, std::memory_order_relaxed);
    }
    entries = 0;
    deletions = 0;
  }
}

void MemTable::Add(SequenceNumber sequence, ValueType type,
                   const Slice& user_key, const Slice& value, uint64_t hash) {
  // relaxed, both: see NeverAdded. Stored once, so that the line stays clean.
  if (never_added_.load(std::memory_order_relaxed)) {
    never_added_.store(false, std::memory_order_relaxed);
  }
  if (type != ValueType::kValue) [[unlikely]] {
    AddOther(sequence, type, user_key, value, hash);
    return;
  }
  AddPoint<false>(sequence, type, user_key, value, hash);
}

void MemTable::AddOther(SequenceNumber sequence, ValueType type,
                        const Slice& user_key, const Slice& value,
                        uint64_t hash) {
  if (type == ValueType::kMerge) {
    AddPoint<false>(sequence, type, user_key, value, hash);
    return;
  }
  if (type == ValueType::kRangeDeletion) {
    tombstones_.Add(user_key, value, sequence);
    if (counter_ != nullptr) counter_->OnGrowth();
    return;
  }
  AddPoint<true>(sequence, type, user_key, value, hash);
  // relaxed: a statistic.
  deletion_count_.fetch_add(1, std::memory_order_relaxed);
}

LookupState MemTable::Find(const Slice& user_key, SequenceNumber sequence,
                           uint64_t hash, Slice* value) const {
  if (NeverAdded()) return LookupState::kNotFound;
  const SequenceNumber cover = tombstones_.MaxCovering(user_key, sequence);
  Slice key;
  if (index_.Find(user_key, hash, &key)) [[likely]] {
    if (key.empty()) return AnswerWithout(cover);
    if (ExtractSequence(key) <= sequence) return Answer(key, cover, value);
    // Too new for this reader. The index does not have older versions.
  }
  return FindOrdered(user_key, sequence, cover, value);
}

const char* MemTable::LowerBound(const Slice& internal_key) const {
  return tree_ ? tree_->LowerBound(internal_key)
               : other_order_->LowerBound(internal_key);
}

LookupState MemTable::FindOrdered(const Slice& user_key,
                                  SequenceNumber sequence, SequenceNumber cover,
                                  Slice* value) const {
  const LookupKey key(user_key, sequence);
  const char* const entry = LowerBound(key.internal_key());
  if (entry == nullptr) return AnswerWithout(cover);
  const Slice found_key = EntryKey(entry);
  if (comparator_->CompareUser(ExtractUserKey(found_key), key.user_key()) !=
      0) {
    return AnswerWithout(cover);
  }
  return Answer(found_key, cover, value);
}

void MemTable::ReadVersions(const Slice& user_key, SequenceNumber sequence,
                            MergeOperands* versions) const {
  if (NeverAdded()) return;
  versions->Cover(tombstones_.MaxCovering(user_key, sequence));
  const std::unique_ptr<InternalIterator> entry = NewIterator();
  const LookupKey key(user_key, sequence);
  for (entry->Seek(key.internal_key()); entry->Valid(); entry->Next()) {
    const Slice found = entry->key();
    if (comparator_->CompareUser(ExtractUserKey(found), user_key) != 0 ||
        !versions->Add(ExtractTrailer(found), entry->value())) {
      return;
    }
  }
}

void MemTable::AddToSequences(SequenceNumber addend) {
  VARVE_DCHECK(tombstones_.empty());
  const std::unique_ptr<InternalIterator> entry = NewIterator();
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    char* const trailer = const_cast<char*>(entry->key().end()) - kTrailerSize;
    EncodeFixed64(trailer, DecodeFixed64(trailer) + (addend << 8));
  }
}

std::unique_ptr<InternalIterator> MemTable::NewIterator(
    ThreadArena* memory) const {
  if (!tree_) return other_order_->NewIterator(memory);
  return std::unique_ptr<InternalIterator>(
      new (memory) MemTableIterator<BlinkTree>(comparator_, &*tree_));
}

}  // namespace varve
