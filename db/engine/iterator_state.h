// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "db/prefix/prefix_sources.h"
#include "table/block/internal_iterator.h"
#include "table/block/key_buffer.h"
#include "util/threads/thread_arena.h"
#include "varve/options.h"

namespace varve {

// Identifies the tree of an iterator. Trees with equal keys are
// interchangeable. SuperVersion numbers are never reused. While the
// SuperVersion of that number exists, all objects that such a tree points to
// exist.
struct IteratorTreeKey {
  uint64_t db = 0;  // Its instance_id.
  uint64_t super_version = 0;
  bool has_memtable = false;
  bool has_tombstones = false;
  bool has_prefix_sources = false;
  // Of ReadOptions.
  bool verify_checksums = false;
  bool fill_cache = false;
  size_t readahead_size = 0;
  ReadTier read_tier = ReadTier::kReadAllTier;
  uint64_t deadline = 0;

  bool operator==(const IteratorTreeKey&) const = default;
};

// The reusable part of an iterator: its tree (the merge, levels, tables,
// memtables, with their buffers) and its own buffers. It outlives the iterator.
// The next iterator reuses the tree if it needs one with an equal key.
// Otherwise it builds a new tree in the same memory. Between two uses it holds
// no SuperVersion, table or block. It is allocated in an arena. With the
// ablation arena=fresh it is allocated on the heap and freed with the iterator.
// Thread-safety: owned by one thread at a time. The thread that destroys the
// iterator keeps it.
class IteratorState {
 public:
  // Returns a state for an iterator over a tree with that key. If tree() is
  // null, the caller has to build the tree in memory().
  static IteratorState* Take(bool fresh, const IteratorTreeKey& key);
  IteratorState(const IteratorState&) = delete;
  IteratorState& operator=(const IteratorState&) = delete;

  ThreadArena* memory() const { return memory_; }  // Null: the heap.
  const IteratorTreeKey& key() const { return key_; }
  InternalIterator* tree() const { return tree_.get(); }
  void SetTree(std::unique_ptr<InternalIterator> tree) {
    tree_ = std::move(tree);
  }
  // The sources in the tree, if its key has them; otherwise null.
  PrefixSources* prefix_sources() const { return prefix_sources_.get(); }
  void SetPrefixSources(std::unique_ptr<PrefixSources> sources) {
    prefix_sources_ = std::move(sources);
  }

  // Releases the SuperVersion's objects that the tree holds. May be called
  // again.
  void ResetForReuse();
  // Gives the state back for reuse. REQUIRES: ResetForReuse was called.
  void GiveBack();

  // Returns the memory of the user's iterator.
  void* place();
  static IteratorState* OfPlace(void* place);

  KeyBuffer saved_key;
  KeyBuffer saved_value;
  KeyBuffer target;
  KeyBuffer inner_target;
  KeyBuffer reseek_target;
  KeyBuffer walk_begin;

 private:
  IteratorState(ThreadArena* memory, const IteratorTreeKey& key)
      : saved_key(memory),
        saved_value(memory),
        target(memory),
        inner_target(memory),
        reseek_target(memory),
        walk_begin(memory),
        memory_(memory),
        key_(key) {}
  ~IteratorState() = default;

  ThreadArena* const memory_;
  const IteratorTreeKey key_;
  std::unique_ptr<PrefixSources> prefix_sources_;
  std::unique_ptr<InternalIterator> tree_;
};

}  // namespace varve
