// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/compaction/compaction.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/range_tombstone_set.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// What of a run of internal keys must be kept: the versions that some reader
// can see. Used by flush and compaction.
//
// Snapshots cut the sequence numbers into stripes; of each user key, the
// newest version of each stripe survives, if no range deletion of that stripe
// hides it. So does the oldest one if it is a single deletion: for RocksDB a
// later one takes away the newest version and itself, and what is below must
// then be deleted still. A deletion goes when no older version can be left that
// it hides: it is in the oldest stripe and no deeper level has the key. Where
// no deeper level has the key, a value of the oldest stripe gets sequence
// number 0, which compresses better; but not if a range deletion covers it,
// which may be older than it and survive.
// Thread-safety: owned by one thread.
class CompactionIterator {
 public:
  // `snapshots`: rising. `tombstones`, of all inputs, may be null.
  // `compaction` is null for a flush, in which all
  // deletions stay. `stop`, if not null, is looked at for each entry of the
  // input, and ends the walk with ShutdownInProgress. All of them, and
  // `input`, must outlive it.
  CompactionIterator(InternalIterator* input,
                     const InternalKeyComparator* comparator,
                     std::vector<SequenceNumber> snapshots,
                     const RangeTombstoneSet* tombstones,
                     const Compaction* compaction,
                     const std::atomic<bool>* stop = nullptr);
  CompactionIterator(const CompactionIterator&) = delete;
  CompactionIterator& operator=(const CompactionIterator&) = delete;

  void SeekToFirst();
  // Moves to the first entry whose user key is at or after this one.
  void Seek(const Slice& user_key);
  bool Valid() const { return valid_; }
  void Next();
  // Valid until the next call.
  Slice key() const { return key_; }
  Slice value() const { return is_ahead_ ? Slice() : input_->value(); }
  // The entry before, if there was one, had another user key.
  bool starts_user_key() const { return starts_user_key_; }
  // The snapshot without which the entry would have been left out, since it is
  // hidden from the next newer one; kMaxSequenceNumber if there is none.
  SequenceNumber kept_for() const { return kept_for_; }
  // Whether the entry is there for readers of snapshots only, of one or
  // several.
  bool hidden() const { return hidden_; }
  // Of the input; OK at its end.
  Status status() const { return status_; }

  // Entries that were left out.
  struct Drops {
    uint64_t hidden = 0;         // By a newer version.
    uint64_t obsolete = 0;       // Deletions that hide nothing any more.
    uint64_t range_deleted = 0;  // By a range deletion.

    uint64_t Total() const { return hidden + obsolete + range_deleted; }
    void Add(const Drops& other) {
      hidden += other.hidden;
      obsolete += other.obsolete;
      range_deleted += other.range_deleted;
    }
  };
  const Drops& drops() const { return drops_; }
  uint64_t input_count() const { return input_count_; }

 private:
  void FindNext();
  void MoveOn();
  // Whether no older version of the entry's key is in its stripe. Moves the
  // input on.
  bool IsLastOfStripe(SequenceNumber stripe);
  // The oldest snapshot that sees the sequence number, or the number of the
  // present.
  SequenceNumber StripeOf(SequenceNumber sequence) const;
  // The stripe after that one. REQUIRES: it is a snapshot's.
  SequenceNumber NextStripe(SequenceNumber stripe) const;
  bool DeeperLevelMayHave(const Slice& user_key);
  // Whether a range deletion hides the version from all that see it.
  bool IsCovered(const Slice& user_key, SequenceNumber sequence,
                 SequenceNumber stripe);

  InternalIterator* const input_;
  const InternalKeyComparator* const comparator_;
  const std::vector<SequenceNumber> snapshots_;
  // At the entry's key.
  std::optional<RangeTombstoneCursor> tombstones_;
  const Compaction* const compaction_;
  const std::atomic<bool>* const stop_;

  bool valid_ = false;
  bool is_ahead_ = false;  // The input is already past the entry.
  bool starts_user_key_ = false;
  bool any_of_user_key_ = false;  // An entry of user_key_ was valid.
  Slice key_;
  std::string rewritten_key_;
  Status status_;
  std::string user_key_;
  bool has_user_key_ = false;
  SequenceNumber kept_for_ = kMaxSequenceNumber;
  bool hidden_ = false;
  SequenceNumber last_stripe_ = 0;  // Of the version before of user_key_.
  bool hidden_by_value_ = false;    // The newest version of that is a value.
  // The levels' files are passed in key order: where each stands.
  size_t level_position_[kNumLevels] = {};
  Drops drops_;
  uint64_t input_count_ = 0;
};

}  // namespace varve
