// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Iterates over a data block in its file's format, in which each key shares
// bytes with the key before it, and restart points have full keys. For a block
// that is read once, this costs less than building the block in memory
// (table/block/block.h).
//
// At most the checksum of the bytes is known to be right, so each step is
// checked. Damage is reported only when a step reaches it.
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
  // Stores the current entry in *position, which must outlive the iterator.
  // `memory`, for long keys, may be null.
  explicit FileBlockIterator(IteratorPosition* position,
                             ThreadArena* memory = nullptr)
      : position_(position), long_key_(memory), renumbered_key_(memory) {}
  FileBlockIterator(const FileBlockIterator&) = delete;
  FileBlockIterator& operator=(const FileBlockIterator&) = delete;

  // Attaches a block's body. The iterator is not valid until it is positioned.
  // The body and the comparator must outlive its use. A global sequence number
  // other than 0 replaces those in the keys. Errors are in status(); after one,
  // attach another body before any other call.
  void Reset(const Slice& body, const InternalKeyComparator* comparator,
             SequenceNumber global_sequence);

  void SeekToFirst();
  // Moves to the first entry at or after the internal key.
  void Seek(const Slice& internal_key);
  // Moves to the next entry. Keys are valid until the next move, values as long
  // as the body.
  // REQUIRES: it is at an entry.
  void Next();

  // Detaches the body and frees heap memory.
  void ResetForReuse() {
    scanner_.reset();
    long_key_.Trim();
    renumbered_key_.Trim();
  }

  // OK after the last entry; otherwise the error in the body. The caller adds
  // file and offset.
  const Status& status() const { return status_; }

 private:
  uint32_t RestartOffset(uint32_t i) const;
  // Finds the last restart point whose key is before the internal key, or the
  // first one. Returns false at damage.
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
  std::optional<EntryScanner> scanner_;  // On the body.
  ArenaBuffer renumbered_key_;           // With the global sequence number.
  Status status_;
};

}  // namespace varve
