// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/cache.h"

namespace leveldb {

Cache* NewLRUCache(size_t capacity) {
  return new varve::compat::LruCache(capacity);
}

}  // namespace leveldb

namespace varve::compat {

LruCache::~LruCache() {
  // Entries with handles are not freed: the program forgot to release them.
  Destroy(unused_);
}

std::shared_ptr<varve::Cache> LruCache::ForBlocks() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (blocks_ == nullptr) blocks_ = NewBlockCache(capacity_);
  return blocks_;
}

leveldb::Cache::Handle* LruCache::Insert(const leveldb::Slice& key, void* value,
                                         size_t charge, Deleter deleter) {
  auto* entry = new Entry;
  entry->key = key.ToString();
  entry->value = value;
  entry->charge = charge;
  entry->deleter = deleter;
  entry->handles = 1;
  entry->in_cache = capacity_ > 0;
  Entries dead;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entry->in_cache) {
      Entry*& place = entries_[entry->key];
      if (place != nullptr) {
        Entry* const old = place;
        entries_.erase(entry->key);
        RemoveLocked(old, &dead);
      }
      entries_[entry->key] = entry;
      charge_ += charge;
      EvictLocked(capacity_, &dead);
    }
  }
  Destroy(dead);
  return entry;
}

leveldb::Cache::Handle* LruCache::Lookup(const leveldb::Slice& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key.ToString());
  if (found == entries_.end()) return nullptr;
  Entry* const entry = found->second;
  if (entry->handles++ == 0) unused_.erase(entry->position);
  return entry;
}

void LruCache::Release(Handle* handle) {
  auto* const entry = static_cast<Entry*>(handle);
  Entries dead;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--entry->handles > 0) return;
    if (!entry->in_cache) {
      dead.push_back(entry);
    } else {
      entry->position = unused_.insert(unused_.end(), entry);
      EvictLocked(capacity_, &dead);
    }
  }
  Destroy(dead);
}

void* LruCache::Value(Handle* handle) {
  return static_cast<Entry*>(handle)->value;
}

void LruCache::Erase(const leveldb::Slice& key) {
  Entries dead;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key.ToString());
    if (found == entries_.end()) return;
    Entry* const entry = found->second;
    entries_.erase(found);
    RemoveLocked(entry, &dead);
  }
  Destroy(dead);
}

uint64_t LruCache::NewId() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++last_id_;
}

void LruCache::Prune() {
  Entries dead;
  std::shared_ptr<varve::Cache> blocks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    EvictLocked(0, &dead);
    blocks = blocks_;
  }
  Destroy(dead);
  if (blocks != nullptr) blocks->EraseUnreferenced();
}

size_t LruCache::TotalCharge() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return charge_ + (blocks_ != nullptr ? blocks_->GetUsage() : 0);
}

void LruCache::RemoveLocked(Entry* entry, Entries* dead) {
  entry->in_cache = false;
  charge_ -= entry->charge;
  if (entry->handles > 0) return;
  unused_.erase(entry->position);
  dead->push_back(entry);
}

void LruCache::EvictLocked(size_t capacity, Entries* dead) {
  while (!unused_.empty() && (charge_ > capacity || capacity == 0)) {
    Entry* const entry = unused_.front();
    entries_.erase(entry->key);
    RemoveLocked(entry, dead);
  }
}

void LruCache::Destroy(const Entries& dead) {
  for (Entry* entry : dead) {
    entry->deleter(leveldb::Slice(entry->key), entry->value);
    delete entry;
  }
}

}  // namespace varve::compat
