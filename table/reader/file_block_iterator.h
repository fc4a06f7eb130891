// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The walk through a data block in its file's form, in which each key shares
// bytes with the one before and the restart points are keys that stand in
// full. To make a block that is read once into one in memory
// (table/block/block.h) costs more than this walk to the few entries that are
// wanted.
//
// Nothing is known of the bytes but, mostly, their checksum: each step is
// checked. Damage that no step comes across is not noticed here.
//
// Thread-safety: owned by one thread at a time.

#include <cstdint>
#include <optional>
#include <string>

#include "table/block/entry_scanner.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

class FileBlockIterator {
 public:
  // Shows where it stands in *position, which must outlive it.
  // `memory`, for long keys, may be null.
  explicit FileBlockIterator(IteratorPosition* position,
                             ThreadArena* memory = nullptr)
      : position_(position), long_key_(memory), renumbered_key_(memory) {}
  FileBlockIterator(const FileBlockIterator&) = delete;
  FileBlockIterator& operator=(const FileBlockIterator&) = delete;

  // Turns to a block's body, standing nowhere in it; both must outlive its
  // use. A global sequence number other than 0 takes the place of those of the
  // keys. See status(); a body that it refuses must be left again.
  void Reset(const Slice& body, const InternalKeyComparator* comparator,
             SequenceNumber global_sequence);

  void SeekToFirst();
  // To the first entry at or behind the internal key.
  void Seek(const Slice& internal_key);
  // REQUIRES: it stands on an entry. Keys are valid until the next move,
  // values as long as the body.
  void Next();

  // Leaves the body, and gives up memory on the heap.
  void ResetForReuse() {
    scanner_.reset();
    long_key_.Trim();
    renumbered_key_.Trim();
  }

  // OK behind the last entry; else what stopped it, or is wrong with the body.
  // It is left to the caller to name file and offset.
  const Status& status() const { return status_; }

 private:
  uint32_t RestartOffset(uint32_t i) const;
  // The last restart point whose key is before the internal key, or the first.
  // False at damage.
  bool FindRestart(const Slice& user_key, uint64_t trailer, uint32_t* found);
  void GoTo(uint32_t restart);
  // Makes the scanner's next entry the current one.
  void Step();
  int Compare(const Slice& internal_key, const Slice& user_key,
              uint64_t trailer) const;

  IteratorPosition* const position_;
  const InternalKeyComparator* comparator_ = nullptr;
  SequenceNumber global_sequence_ = 0;
  const char* restarts_ = nullptr;
  uint32_t restart_count_ = 0;
  ArenaBuffer long_key_;
  std::optional<EntryScanner> scanner_;  // Of the body.
  ArenaBuffer renumbered_key_;           // With the global sequence number.
  Status status_;
};

}  // namespace varve
