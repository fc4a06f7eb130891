// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <functional>
#include <memory>

#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "util/bytes/short_copy.h"
#include "util/threads/thread_arena.h"
#include "varve/iterator.h"
#include "varve/options.h"

namespace varve {

class StatisticsImpl;

// A copy of a key or value; short ones need no further memory.
class KeyBuffer {
 public:
  explicit KeyBuffer(ThreadArena* memory) : large_(memory) {}
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  // Space for so many bytes; what is there is lost.
  char* Reserve(size_t size) {
    if (size > capacity_) [[unlikely]] {
      data_ = large_.Grow(2 * size, nullptr, 0);
      capacity_ = large_.capacity();
    }
    return data_;
  }
  void Assign(const Slice& key) {
    ShortCopy(Reserve(key.size()), key.data(), key.size());
    size_ = key.size();
  }
  Slice slice() const { return Slice(data_, size_); }
  // Gives up memory on the heap, and with it what is there.
  void Trim() {
    if (!large_.Trim()) return;
    data_ = inline_;
    size_ = 0;
    capacity_ = sizeof(inline_);
  }

 private:
  char inline_[64];
  char* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = sizeof(inline_);
  ArenaBuffer large_;
};

// What the tree of an iterator is of. Trees of equal keys are alike: while
// there is a SuperVersion of that number, which is never given twice, all is
// there that they point to.
struct IteratorTreeKey {
  uint64_t db = 0;  // Its instance_id.
  uint64_t super_version = 0;
  bool has_memtable = false;
  bool has_tombstones = false;
  // Of ReadOptions.
  bool verify_checksums = false;
  bool fill_cache = false;
  size_t readahead_size = 0;

  bool operator==(const IteratorTreeKey&) const = default;
};

// What is kept of an iterator when it has gone: its tree (the merge, levels,
// tables, memtables, with their buffers) and its own buffers. The tree is used
// again if the next iterator needs one of the same key, and else made anew in
// the same memory. Between two uses it holds no SuperVersion, table or block.
// Lies in an arena; with the ablation arena=fresh on the heap, and goes
// with the iterator.
// Thread-safety: owned by one thread at a time; that which destroys the
// iterator keeps it.
class IteratorState {
 public:
  // For an iterator over a tree of that key. If tree() is null, the caller has
  // to make it, in memory().
  static IteratorState* Take(bool fresh, const IteratorTreeKey& key);
  IteratorState(const IteratorState&) = delete;
  IteratorState& operator=(const IteratorState&) = delete;

  ThreadArena* memory() const { return memory_; }  // Null: the heap.
  InternalIterator* tree() const { return tree_.get(); }
  void SetTree(std::unique_ptr<InternalIterator> tree) {
    tree_ = std::move(tree);
  }

  // Lets go of what the tree holds.
  void ResetForReuse();
  // After ResetForReuse.
  void GiveBack();

  // Where the user's iterator lies.
  void* place();
  static IteratorState* OfPlace(void* place);

  KeyBuffer saved_key;
  KeyBuffer saved_value;
  KeyBuffer target;
  KeyBuffer reseek_target;

 private:
  IteratorState(ThreadArena* memory, const IteratorTreeKey& key)
      : saved_key(memory),
        saved_value(memory),
        target(memory),
        reseek_target(memory),
        memory_(memory),
        key_(key) {}
  ~IteratorState() = default;

  ThreadArena* const memory_;
  const IteratorTreeKey key_;
  std::unique_ptr<InternalIterator> tree_;
};

// What a user's iterator is made of.
struct DbIteratorParts {
  const InternalKeyComparator* comparator = nullptr;
  IteratorState* state = nullptr;  // With a tree.
  // Newer updates are not seen.
  SequenceNumber sequence = 0;
  StatisticsImpl* statistics = nullptr;
  Env* env = nullptr;
  // Called when the iterator has gone, to let go of what it reads from.
  std::function<void()> cleanup;
};

// Yields user keys and their values: the newest version of each that the
// sequence number sees, without the deleted ones.
std::unique_ptr<Iterator> NewDbIterator(DbIteratorParts parts,
                                        const ReadOptions& options);

}  // namespace varve
