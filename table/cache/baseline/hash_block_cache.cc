// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "table/cache/baseline/hash_block_cache.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "util/base/mutex.h"

namespace varve {

namespace hash_block_cache_internal {

struct Entry {
  // Immutable once it is in a shard.
  Shard* shard = nullptr;
  uint64_t table_id = 0;
  uint64_t offset = 0;
  uint64_t hash = 0;
  size_t charge_bytes = 0;
  BlockRef block;

  // Guarded by the shard's mutex.
  uint32_t refs = 1;  // BlockRefs, the table's own hold not counted.
  bool in_table = false;
  Entry* next_in_bucket = nullptr;
  // Neighbors in the ring of unpinned entries; both null when pinned.
  Entry* older = nullptr;
  Entry* newer = nullptr;
  // Neighbors among the entries of the same table.
  Entry* previous_of_table = nullptr;
  Entry* next_of_table = nullptr;
};

// A list of removed entries, to be freed without the mutex.
class Garbage {
 public:
  Garbage() = default;
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;
  ~Garbage() {
    while (first_ != nullptr) {
      delete std::exchange(first_, first_->next_in_bucket);
    }
  }
  void Add(Entry* entry) {
    entry->next_in_bucket = first_;
    first_ = entry;
  }

 private:
  Entry* first_ = nullptr;
};

// Entries in the hash table and pinned entries are charged. Unpinned entries in
// the hash table are also in the ring, oldest first, and can be evicted.
class Shard {
 public:
  Shard(size_t capacity_bytes, bool strict)
      : strict_(strict), capacity_bytes_(capacity_bytes), buckets_(16) {
    ring_.older = ring_.newer = &ring_;
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  // No BlockRef is left.
  ~Shard() { EraseUnreferenced(); }

  BlockRef Lookup(uint64_t table_id, uint64_t offset, uint64_t hash);
  bool Admit(const BlockPlace& place);
  BlockRef Insert(std::unique_ptr<Entry> entry);
  // Returns a ref to a pinned entry.
  static BlockRef RefTo(Entry* entry);
  void Release(Entry* entry);
  void EraseTable(uint64_t table_id);
  void SetCapacity(size_t capacity_bytes);
  void EraseUnreferenced();
  size_t Usage() const {
    MutexLock lock(&mu_);
    return usage_bytes_;
  }
  uint64_t Lookups() const {
    MutexLock lock(&mu_);
    return lookups_;
  }
  size_t PinnedUsage() const {
    MutexLock lock(&mu_);
    return usage_bytes_ - ring_bytes_;
  }

 private:
  // Returns the link that points, or would point, to the entry.
  Entry** FindPointer(uint64_t table_id, uint64_t offset, uint64_t hash)
      VARVE_REQUIRES(mu_);
  void Pin(Entry* entry) VARVE_REQUIRES(mu_);
  void AddToTable(Entry* entry) VARVE_REQUIRES(mu_);
  void RemoveFromTable(Entry* entry) VARVE_REQUIRES(mu_);
  void AddToRing(Entry* entry) VARVE_REQUIRES(mu_);
  void RemoveFromRing(Entry* entry) VARVE_REQUIRES(mu_);
  // Removes an unpinned entry from all lists.
  void Evict(Entry* entry, Garbage* garbage) VARVE_REQUIRES(mu_);
  // Evicts the oldest until `more_bytes` fit or nothing is left to evict.
  void MakeSpace(size_t more_bytes, Garbage* garbage) VARVE_REQUIRES(mu_);
  void GrowBuckets() VARVE_REQUIRES(mu_);

  const bool strict_;
  mutable Mutex mu_;
  size_t capacity_bytes_ VARVE_GUARDED_BY(mu_);
  size_t usage_bytes_ VARVE_GUARDED_BY(mu_) = 0;
  size_t ring_bytes_ VARVE_GUARDED_BY(mu_) = 0;
  size_t entry_count_ VARVE_GUARDED_BY(mu_) = 0;
  Admission admission_ VARVE_GUARDED_BY(mu_);
  uint64_t lookups_ VARVE_GUARDED_BY(mu_) = 0;
  std::vector<Entry*> buckets_ VARVE_GUARDED_BY(mu_);  // A power of two.
  // Its `newer` is the oldest entry, its `older` the newest.
  Entry ring_ VARVE_GUARDED_BY(mu_);
  // The first entry of each table.
  std::unordered_map<uint64_t, Entry*> tables_ VARVE_GUARDED_BY(mu_);
};

Entry** Shard::FindPointer(uint64_t table_id, uint64_t offset, uint64_t hash) {
  Entry** p = &buckets_[hash & (buckets_.size() - 1)];
  while (*p != nullptr &&
         ((*p)->offset != offset || (*p)->table_id != table_id)) {
    p = &(*p)->next_in_bucket;
  }
  return p;
}

void Shard::Pin(Entry* entry) {
  if (entry->refs++ == 0) RemoveFromRing(entry);
}

void Shard::AddToTable(Entry* entry) {
  if (entry_count_ >= buckets_.size()) GrowBuckets();
  Entry*& bucket = buckets_[entry->hash & (buckets_.size() - 1)];
  entry->next_in_bucket = bucket;
  bucket = entry;
  Entry*& first = tables_[entry->table_id];
  entry->next_of_table = first;
  if (first != nullptr) first->previous_of_table = entry;
  first = entry;
  entry->in_table = true;
  ++entry_count_;
}

void Shard::RemoveFromTable(Entry* entry) {
  *FindPointer(entry->table_id, entry->offset, entry->hash) =
      entry->next_in_bucket;
  if (entry->next_of_table != nullptr) {
    entry->next_of_table->previous_of_table = entry->previous_of_table;
  }
  if (entry->previous_of_table != nullptr) {
    entry->previous_of_table->next_of_table = entry->next_of_table;
  } else if (entry->next_of_table != nullptr) {
    tables_[entry->table_id] = entry->next_of_table;
  } else {
    tables_.erase(entry->table_id);
  }
  entry->in_table = false;
  --entry_count_;
}

void Shard::AddToRing(Entry* entry) {
  entry->newer = &ring_;
  entry->older = ring_.older;
  entry->older->newer = entry;
  ring_.older = entry;
  ring_bytes_ += entry->charge_bytes;
}

void Shard::RemoveFromRing(Entry* entry) {
  entry->older->newer = entry->newer;
  entry->newer->older = entry->older;
  entry->older = entry->newer = nullptr;
  ring_bytes_ -= entry->charge_bytes;
}

void Shard::Evict(Entry* entry, Garbage* garbage) {
  RemoveFromRing(entry);
  RemoveFromTable(entry);
  usage_bytes_ -= entry->charge_bytes;
  garbage->Add(entry);
}

void Shard::MakeSpace(size_t more_bytes, Garbage* garbage) {
  while (usage_bytes_ + more_bytes > capacity_bytes_ && ring_.newer != &ring_) {
    Evict(ring_.newer, garbage);
  }
}

void Shard::GrowBuckets() {
  std::vector<Entry*> larger(buckets_.size() * 2);
  for (Entry* entry : buckets_) {
    while (entry != nullptr) {
      Entry* next = entry->next_in_bucket;
      Entry*& bucket = larger[entry->hash & (larger.size() - 1)];
      entry->next_in_bucket = bucket;
      bucket = entry;
      entry = next;
    }
  }
  buckets_.swap(larger);
}

BlockRef Shard::Lookup(uint64_t table_id, uint64_t offset, uint64_t hash) {
  MutexLock lock(&mu_);
  ++lookups_;
  Entry* entry = *FindPointer(table_id, offset, hash);
  if (entry == nullptr) return BlockRef();
  Pin(entry);
  return RefTo(entry);
}

BlockRef Shard::RefTo(Entry* entry) {
  return BlockRef(
      entry->block.get(),
      [](void* argument) {
        auto* released = static_cast<Entry*>(argument);
        released->shard->Release(released);
      },
      entry);
}

bool Shard::Admit(const BlockPlace& place) {
  MutexLock lock(&mu_);
  return admission_.Admit(place.last_miss, place.handle().size, usage_bytes_,
                          capacity_bytes_);
}

BlockRef Shard::Insert(std::unique_ptr<Entry> entry) {
  Garbage garbage;  // Freed after the lock's scope.
  MutexLock lock(&mu_);
  Entry* winner = *FindPointer(entry->table_id, entry->offset, entry->hash);
  if (winner != nullptr) {
    Pin(winner);
    garbage.Add(entry.release());
    return RefTo(winner);
  }
  // A block that never fits must not push out all others.
  if (entry->charge_bytes > capacity_bytes_) return std::move(entry->block);
  MakeSpace(entry->charge_bytes, &garbage);
  if (strict_ && usage_bytes_ + entry->charge_bytes > capacity_bytes_) {
    return std::move(entry->block);
  }
  entry->shard = this;
  usage_bytes_ += entry->charge_bytes;
  AddToTable(entry.get());
  return RefTo(entry.release());
}

void Shard::Release(Entry* entry) {
  Garbage garbage;
  MutexLock lock(&mu_);
  if (--entry->refs > 0) return;
  if (entry->in_table && usage_bytes_ <= capacity_bytes_) {
    AddToRing(entry);
    return;
  }
  if (entry->in_table) RemoveFromTable(entry);
  usage_bytes_ -= entry->charge_bytes;
  garbage.Add(entry);
}

void Shard::EraseTable(uint64_t table_id) {
  Garbage garbage;
  MutexLock lock(&mu_);
  const auto it = tables_.find(table_id);
  Entry* entry = it == tables_.end() ? nullptr : it->second;
  while (entry != nullptr) {
    Entry* next = entry->next_of_table;
    if (entry->refs == 0) {
      Evict(entry, &garbage);
    } else {
      RemoveFromTable(entry);
    }
    entry = next;
  }
}

void Shard::SetCapacity(size_t capacity_bytes) {
  Garbage garbage;
  MutexLock lock(&mu_);
  capacity_bytes_ = capacity_bytes;
  MakeSpace(0, &garbage);
}

void Shard::EraseUnreferenced() {
  Garbage garbage;
  MutexLock lock(&mu_);
  while (ring_.newer != &ring_) Evict(ring_.newer, &garbage);
}

}  // namespace hash_block_cache_internal

namespace {

using hash_block_cache_internal::Entry;
using hash_block_cache_internal::Shard;

uint64_t HashOf(uint64_t table_id, uint64_t offset) {
  // Multiplications by odd numbers, and a fold of the high bits, which are
  // the better ones, to the low bits.
  const uint64_t h =
      (table_id * 0x9E3779B97F4A7C15 ^ offset) * 0xBF58476D1CE4E5B9;
  return h ^ h >> 32;
}

}  // namespace

HashBlockCache::HashBlockCache(const CacheOptions& options)
    : BlockCache(options) {
  const size_t count = ShardCount(options.capacity_bytes);
  for (size_t i = 0; i < count; ++i) {
    shards_.push_back(
        std::make_unique<Shard>(ShardPart(options.capacity_bytes, i, count),
                                options.strict_capacity_limit));
  }
}

HashBlockCache::~HashBlockCache() = default;

Shard* HashBlockCache::ShardOf(uint64_t hash) {
  return shards_[hash >> 48 & (shards_.size() - 1)].get();
}

BlockRef HashBlockCache::Lookup(const BlockPlace& place) {
  const uint64_t hash = HashOf(place.table_id, place.handle().offset);
  return ShardOf(hash)->Lookup(place.table_id, place.handle().offset, hash);
}

bool HashBlockCache::Admit(const BlockPlace& place) {
  const uint64_t hash = HashOf(place.table_id, place.handle().offset);
  return ShardOf(hash)->Admit(place);
}

BlockRef HashBlockCache::Insert(const BlockPlace& place, BlockRef block) {
  auto entry = std::make_unique<Entry>();
  entry->table_id = place.table_id;
  entry->offset = place.handle().offset;
  entry->hash = HashOf(place.table_id, place.handle().offset);
  entry->charge_bytes = sizeof(Entry) + block->ApproximateMemoryUsage();
  entry->block = std::move(block);
  Shard* shard = ShardOf(entry->hash);
  return shard->Insert(std::move(entry));
}

void HashBlockCache::EraseTable(uint64_t table_id, BlockSlots /*slots*/) {
  for (const auto& shard : shards_) shard->EraseTable(table_id);
}

void HashBlockCache::Divide(size_t block_bytes) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i]->SetCapacity(ShardPart(block_bytes, i, shards_.size()));
  }
}

size_t HashBlockCache::GetUsage() const {
  size_t sum = ReservedBytes();
  for (const auto& shard : shards_) sum += shard->Usage();
  return sum;
}

uint64_t HashBlockCache::PathCount() const {
  uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->Lookups();
  return sum;
}

size_t HashBlockCache::GetPinnedUsage() const {
  size_t sum = 0;
  for (const auto& shard : shards_) sum += shard->PinnedUsage();
  return sum;
}

void HashBlockCache::EraseUnreferenced() {
  for (const auto& shard : shards_) shard->EraseUnreferenced();
}

}  // namespace varve
