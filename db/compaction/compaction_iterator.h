// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/compaction/older_tables.h"
#include "db/compaction/operand_list.h"
#include "db/filter/job_filter.h"
#include "monitoring/statistics.h"
#include "table/block/internal_iterator.h"
#include "table/block/internal_key.h"
#include "table/block/range_tombstone_set.h"
#include "varve/merge_operator.h"
#include "varve/slice.h"
#include "varve/status.h"

namespace varve {

// Code of the user that a job calls. All may be null.
struct CompactionUserCode {
  const MergeOperator* merge_operator = nullptr;
  JobFilter* filter = nullptr;
  StatisticsImpl* stats = nullptr;  // Counts failures.
  // Operands stay apart if their key and their merge are longer. Tests lower
  // it.
  size_t max_merged_bytes = kMaxEntryBytes - kTrailerSize;
};

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
//
// *Merge operands* of a key are merged within a stripe, so that each snapshot
// sees what it saw. They end at the first value or deletion. This is their
// base. A range deletion of the stripe, or the last version of a key that no
// older table has, is the base of a key without a value. With a base, the
// operands become a value with the newest one's sequence number. Without one,
// they become one operand, if the operator can combine them. If it cannot, or
// fails, or there is none, all of them and their base are kept. The operands of
// a key are in memory together; nothing else bounds their size.
//
// *A filter* is asked for the newest version of a key, and for each operand of
// the newest stripe, unless a snapshot needs it. A value that it removes
// becomes a deletion. While it skips keys, versions that snapshots need are
// kept, below a deletion.
// Thread-safety: owned by one thread.
class CompactionIterator {
 public:
  // `snapshots` are in increasing order. `tombstones` has the range deletions
  // of all inputs and may be null. If `older_tables` is null, all deletions are
  // kept. `output` says whether the output is for level 0, whose tables are
  // ordered by sequence number. If `stop` is not null, it is checked at each
  // input entry and ends the iteration with ShutdownInProgress. All of them,
  // `input`, and the members of `user_code`, must outlive the iterator.
  enum class Output : uint8_t { kLevel0, kDeeperLevel };
  CompactionIterator(InternalIterator* input,
                     const InternalKeyComparator* comparator,
                     std::vector<SequenceNumber> snapshots,
                     const RangeTombstoneSet* tombstones,
                     OlderTables* older_tables, Output output,
                     const std::atomic<bool>* stop = nullptr,
                     const CompactionUserCode& user_code = {});
  CompactionIterator(const CompactionIterator&) = delete;
  CompactionIterator& operator=(const CompactionIterator&) = delete;

  // Ends the iteration before the first entry whose user key is at or after
  // *end, which must outlive the iterator. Null means no end, as before the
  // call. Code of the user is not called for later entries.
  void SetEnd(const std::string* end) { end_ = end; }
  void SeekToFirst();
  // Moves to the first entry whose user key is at or after `user_key`.
  void Seek(const Slice& user_key);
  bool Valid() const { return valid_; }
  void Next();
  // Valid until the next call.
  Slice key() const { return key_; }
  Slice value() const { return has_own_value_ ? value_ : input_->value(); }
  // Returns true if this is the first entry of its user key.
  bool starts_user_key() const { return starts_user_key_; }
  // Returns the snapshot that alone keeps the entry, which is hidden from the
  // next newer snapshot. Returns kMaxSequenceNumber if there is none.
  SequenceNumber kept_for() const { return kept_for_; }
  // Returns true if the entry is kept for snapshots only: no other reader can
  // see it, or a snapshot alone keeps it apart from newer merge operands.
  bool hidden() const { return hidden_; }
  // Returns the status of the input, which is OK at its end.
  Status status() const { return status_; }

  // Dropped entries.
  struct Drops {
    uint64_t hidden = 0;         // By a newer version.
    uint64_t obsolete = 0;       // Deletions that hide nothing.
    uint64_t range_deleted = 0;  // By a range deletion.
    // By the filter. Those that it skips without reading them do not count, and
    // those that became deletions do.
    uint64_t user = 0;

    uint64_t Total() const { return hidden + obsolete + range_deleted + user; }
    void Add(const Drops& other) {
      hidden += other.hidden;
      obsolete += other.obsolete;
      range_deleted += other.range_deleted;
      user += other.user;
    }
  };
  const Drops& drops() const { return drops_; }
  // Returns the input entries read.
  uint64_t input_count() const { return input_count_; }
  // Returns the largest sequence number of the input entries read.
  SequenceNumber input_end() const { return input_end_; }
  // Returns true if the filter had input entries skipped, not read.
  bool skipped_input() const { return skipped_input_; }

 private:
  // A version of a key. It may differ from the input's.
  struct Entry {
    Slice user_key;
    SequenceNumber sequence;
    SequenceNumber stripe;
    ValueType type;
  };
  // The base of the operands of a stripe.
  enum class Base : uint8_t { kUnknown, kNoValue, kValue };
  enum class Outcome : uint8_t { kKept, kRemoved, kDropped, kStopped };

  void FindNext();
  void MoveOn();
  // Sets the state for an entry that no newer one of its stripe hides.
  void BeginStripe(const Entry& entry, bool same_key);
  // Returns true, and sets the status, if the job is to end.
  bool MustStop();
  // Makes the entry the current one, with a value that is valid until the next
  // call of Next.
  void SetEntry(const Entry& entry, const Slice& value);
  // Returns true if the input is at an older version of user_key_.
  bool IsAtUserKey() const;
  // Returns true if no older version of the entry's key is in its stripe.
  // Advances the input.
  bool IsLastOfStripe(SequenceNumber stripe);

  // Asks the filter about a value. Replaces the entry if the filter does.
  // kRemoved: it became a deletion. kDropped: it and the next keys are skipped.
  Outcome FilterValue(Entry* entry);
  // Drops the entry and begins to skip keys.
  void BeginSkip(const Slice& user_key, SequenceNumber sequence);
  // Returns false if the entry is to be skipped. If it is an older version of a
  // skipped one, puts a deletion before it, so that it stays hidden.
  bool PassesSkip(Entry* entry);

  // Merges the operands of a stripe. The input is at the newest one. Replaces
  // the entry by the result, or by the first of the operands that are kept.
  // kDropped: the filter removed all of them.
  Outcome MergeOperands(Entry* entry);
  // Reads the operands and finds their base. The input then is after the last
  // of them, or at a base that is a value.
  Outcome CollectOperands(const Entry& newest, Base* base);
  Outcome FilterOperand(const Entry& newest, SequenceNumber sequence);
  // Returns true if a range deletion of the stripe hides the versions of
  // user_key_ that the input does not have.
  bool IsDeletedInStripe(SequenceNumber stripe);
  // Makes the next operand the current entry.
  void TakeOperand();

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
  const CompactionUserCode user_code_;
  const std::string* end_ = nullptr;

  bool valid_ = false;
  bool is_ahead_ = false;       // The input is already after the entry.
  bool has_own_value_ = false;  // The value is value_.
  bool starts_user_key_ = false;
  bool any_of_user_key_ = false;  // An entry of user_key_ was valid.
  Slice key_;
  Slice value_;
  std::string rewritten_key_;
  Status status_;
  std::string user_key_;
  bool has_user_key_ = false;
  SequenceNumber kept_for_ = kMaxSequenceNumber;
  bool hidden_ = false;
  SequenceNumber last_stripe_ = 0;  // For the previous version of user_key_.
  bool hidden_by_value_ = false;    // Its newest version is a value.
  // The stripe has only merge operands up to now, which hide nothing.
  bool stripe_is_open_ = false;
  bool has_closed_stripe_ = false;  // It or a newer one has more than operands.
  // hidden_ and kept_for_ of all entries of an open stripe.
  bool stripe_hidden_ = false;
  SequenceNumber stripe_kept_for_ = kMaxSequenceNumber;

  OperandList operands_;
  size_t next_operand_ = 0;  // From it on, operands_ are entries to come.

  // Keys before it are skipped. Only set with snapshots.
  std::optional<std::string> skip_until_;
  // The newest version of a key that was skipped last.
  std::string skipped_key_;
  SequenceNumber skipped_sequence_ = 0;
  bool has_skipped_ = false;
  bool skipped_input_ = false;

  Drops drops_;
  uint64_t input_count_ = 0;
  SequenceNumber input_end_ = 0;
};

}  // namespace varve
