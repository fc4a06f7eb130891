// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// A point index by itself, with hashes of the test's choice.

#include "db/memtable/memtable_entry.h"
#include "db/memtable/point_index.h"
#include "table/block/internal_key.h"
#include "test/testing/test_headers.h"
#include "test/testing/threads/run_threads.h"
#include "util/bytes/arena.h"
#include "util/bytes/coding.h"

namespace varve::test {

// Runs function(0) .. function(count - 1), each in a thread.
inline void RunThreads(int count, const std::function<void(int)>& function) {
  std::atomic<int> ready{0};
  RunThreads(count, [&](int i) {
    // Close together, or the first is done before the last has started.
    ready.fetch_add(1);
    while (ready.load() < count) std::this_thread::yield();
    function(i);
  });
}

// Thread-safety: as PointIndex.
class Index {
 public:
  explicit Index(size_t bucket_count)
      : index_(bucket_count, &arena_, &count_) {}

  void Insert(const std::string& key, SequenceNumber sequence, uint64_t hash) {
    const ArenaPlace entry = NewEntry(key, sequence);
    index_.Insert(entry, EntryKey(entry.data), hash);
    // relaxed: an estimate.
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  // As a thread does that chose an array before others were added.
  void InsertInto(size_t age, const std::string& key, SequenceNumber sequence,
                  uint64_t hash) {
    const ArenaPlace entry = NewEntry(key, sequence);
    index_.TEST_InsertInto(age, entry, EntryKey(entry.data), hash);
  }
  // The sequence number found, 0 if none.
  SequenceNumber Find(const std::string& key, uint64_t hash) const {
    Slice internal_key;
    EXPECT_TRUE(index_.Find(key, hash, &internal_key));
    if (internal_key.empty()) return 0;
    EXPECT_EQ(ExtractUserKey(internal_key), Slice(key));
    return ExtractSequence(internal_key);
  }
  void BeginGrowth() { index_.TEST_BeginGrowth(); }
  size_t ArrayCount() const { return index_.TEST_ArrayCount(); }
  size_t MemoryUsage() const { return index_.MemoryUsage(); }
  size_t ArenaMemoryUsage() const { return arena_.MemoryUsage(); }
  void Prefetch(uint64_t hash) const { index_.Prefetch(hash); }

 private:
  ArenaPlace NewEntry(const std::string& key, SequenceNumber sequence) {
    const std::string internal_key =
        MakeInternalKey(key, PackTrailer(sequence, ValueType::kValue));
    std::string bytes;
    PutVarint32(&bytes, static_cast<uint32_t>(internal_key.size()));
    bytes += internal_key;
    const ArenaPlace entry = arena_.Allocate(bytes.size());
    memcpy(entry.data, bytes.data(), bytes.size());
    return entry;
  }

  Arena arena_;
  std::atomic<uint64_t> count_{0};
  PointIndex index_;
};

}  // namespace varve::test
