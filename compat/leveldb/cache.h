// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "compat/leveldb/abi.h"
#include "compat/leveldb/own_objects.h"
#include "varve/cache.h"

namespace varve::compat {

// The result of leveldb::NewLRUCache. Databases keep their blocks in a block
// cache of the engine, which this object creates for them and shares among
// them. A program that inserts entries of its own gets an LRU cache of the same
// capacity for them.
//
// Thread-safety: thread-safe.
class LruCache final : public OwnObject<LruCache, leveldb::Cache> {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}
  ~LruCache() override;

  // Returns the cache for blocks of databases. It can outlive this object.
  std::shared_ptr<varve::Cache> ForBlocks();

  Handle* Insert(const leveldb::Slice& key, void* value, size_t charge,
                 Deleter deleter) override;
  Handle* Lookup(const leveldb::Slice& key) override;
  void Release(Handle* handle) override;
  void* Value(Handle* handle) override;
  void Erase(const leveldb::Slice& key) override;
  uint64_t NewId() override;
  void Prune() override;
  size_t TotalCharge() const override;

 private:
  // An entry is in the cache, or has handles, or both. It is in `unused_` if it
  // is in the cache and has no handle.
  struct Entry : Handle {
    std::string key;
    void* value;
    size_t charge;
    Deleter deleter;
    size_t handles;
    bool in_cache;
    std::list<Entry*>::iterator position;  // In unused_.
  };
  using Entries = std::list<Entry*>;

  // Removes the entry from the cache. Adds it to *dead if it has no handle.
  void RemoveLocked(Entry* entry, Entries* dead);
  void EvictLocked(size_t capacity, Entries* dead);
  // Calls the deleters. REQUIRES: mutex_ is not held, since a deleter may use
  // the cache.
  static void Destroy(const Entries& dead);

  const size_t capacity_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<varve::Cache> blocks_;
  std::unordered_map<std::string, Entry*> entries_;
  Entries unused_;  // The least recently used is first.
  size_t charge_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace varve::compat
