// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/compaction/older_tables.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/range_tombstone_set.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Filters a run of internal keys and keeps the versions that some reader can
// see. Used by flush and compaction.
//
// Snapshots divide the sequence numbers into stripes. Of each user key, the
// newest version of each stripe is kept, unless a range deletion of that stripe
// hides it. If the oldest version in a stripe is a single deletion, it is kept
// too. In RocksDB a later single deletion removes itself and the newest
// version, and older versions must still be deleted then.
//
// A deletion is dropped when it can hide no older version: it is in the oldest
// stripe, and no older table has the key. If no older table has the key, a
// compaction gives a value of the oldest stripe sequence number 0, which
// compresses better. A value that a range deletion covers keeps its number,
// since the range deletion may be older and survive.
// Thread-safety: owned by one thread.
class CompactionIterator {
 public:
  // `snapshots` are in increasing order. `tombstones` has the range deletions
  // of all inputs and may be null. If `older_tables` is null, all deletions are
  // kept. `output` says whether the output is for level 0, whose tables are
  // ordered by sequence number. If `stop` is not null, it is checked at each
  // input entry and ends the iteration with ShutdownInProgress. All of them,
  // and `input`, must outlive the iterator.
  enum class Output : uint8_t { kLevel0, kDeeperLevel };
  CompactionIterator(InternalIterator* input,
                     const InternalKeyComparator* comparator,
                     std::vector<SequenceNumber> snapshots,
                     const RangeTombstoneSet* tombstones,
                     OlderTables* older_tables, Output output,
                     const std::atomic<bool>* stop = nullptr);
  CompactionIterator(const CompactionIterator&) = delete;
  CompactionIterator& operator=(const CompactionIterator&) = delete;

  void SeekToFirst();
  // Moves to the first entry whose user key is at or after `user_key`.
  void Seek(const Slice& user_key);
  bool Valid() const { return valid_; }
  void Next();
  // Valid until the next call.
  Slice key() const { return key_; }
  Slice value() const { return is_ahead_ ? Slice() : input_->value(); }
  // Returns true if this is the first entry of its user key.
  bool starts_user_key() const { return starts_user_key_; }
  // Returns the snapshot that alone keeps the entry, which is hidden from the
  // next newer snapshot. Returns kMaxSequenceNumber if there is none.
  SequenceNumber kept_for() const { return kept_for_; }
  // Returns true if only readers of snapshots can see the entry.
  bool hidden() const { return hidden_; }
  // Returns the status of the input, which is OK at its end.
  Status status() const { return status_; }

  // Dropped entries.
  struct Drops {
    uint64_t hidden = 0;         // By a newer version.
    uint64_t obsolete = 0;       // Deletions that hide nothing.
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
  // Returns true if no older version of the entry's key is in its stripe.
  // Advances the input.
  bool IsLastOfStripe(SequenceNumber stripe);
  // Returns the oldest snapshot that sees the sequence number, or
  // kMaxSequenceNumber if none does.
  SequenceNumber StripeOf(SequenceNumber sequence) const;
  // Returns the stripe after `stripe`. REQUIRES: it is a snapshot's.
  SequenceNumber NextStripe(SequenceNumber stripe) const;
  bool OlderTablesMayHave(const Slice& user_key);
  // Returns true if a range deletion hides the version from all readers that
  // see it.
  bool IsCovered(const Slice& user_key, SequenceNumber sequence,
                 SequenceNumber stripe);

  InternalIterator* const input_;
  const InternalKeyComparator* const comparator_;
  const std::vector<SequenceNumber> snapshots_;
  std::optional<RangeTombstoneCursor> tombstones_;  // At the entry's key.
  OlderTables* const older_tables_;
  const bool is_for_level0_;
  const std::atomic<bool>* const stop_;

  bool valid_ = false;
  bool is_ahead_ = false;  // The input is already after the entry.
  bool starts_user_key_ = false;
  bool any_of_user_key_ = false;  // An entry of user_key_ was valid.
  Slice key_;
  std::string rewritten_key_;
  Status status_;
  std::string user_key_;
  bool has_user_key_ = false;
  SequenceNumber kept_for_ = kMaxSequenceNumber;
  bool hidden_ = false;
  SequenceNumber last_stripe_ = 0;  // For the previous version of user_key_.
  bool hidden_by_value_ = false;    // Its newest version is a value.
  Drops drops_;
  uint64_t input_count_ = 0;
};

}  // namespace varve
